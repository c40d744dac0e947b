// One chunk of the backward scan with decay per channel, or with lookups of their own (and any decay).
//
// The decay between two steps of a chunk, D_ij = g_{j+1} ∘ ... ∘ g_i, is now a vector that stands between the two factors of every
// product of steps:
//   P_ij = q_i · (D_ij ∘ k_j)   X_ij = e_i · (D_ij ∘ k_j)   L = stril(A X)   dU = Pᵀ dY + (T ∘ K) Fᵀ,   T_j = D_Cj
//   dQ_i = Γ_i ∘ (dY W)_i + Σ_{j≤i} dP_ij D_ij ∘ k_j          dE_i = -Γ_i ∘ (A dR W)_i + Σ_{j<i} dX_ij D_ij ∘ k_j
//   dK_j = T_j ∘ (U F)_j + Σ_{i≥j} dP_ij D_ij ∘ q_i + Σ_{i>j} dX_ij D_ij ∘ e_i
//   F ← F diag(Γ_C) + (Γ ∘ Q)ᵀ dY - (Γ ∘ E)ᵀ A dR
// Keys age step by step, D_ij ∘ k_j = g_i ∘ (D_{i-1,j} ∘ k_j), and gradients come back the same way: only ever products, never a
// quotient, so that a decay of zero is as good as any and nothing can overflow. That is a triangle of 16 × 16 / 2 rows for each
// chunk, of which the products with W and F, 16 rows × all values, take little notice.
#pragma once

#include "scan/chunk_backward.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real, Decay Kind>
void BackwardTile<Real, Kind>::load_channels() {
    lookup = head.lookups ? load_rows(space.lookup, head.lookups + start * head.lookup_step, head.lookup_step) : key;
    if (head.per_channel) {
        decays = load_rows(space.decays, head.decay + start * head.decay_step, head.decay_step);
        return;
    }
    for (Index step = 0; step < count; ++step) {
        const Vector<Real> decay = broadcast(head.decay ? head.decay[(start + step) * head.decay_step] : Real(1));
        for (Index column = 0; column < padded; column += kStep) store(space.decays + step * padded + column, decay);
    }
    decays = {space.decays, padded};
}

// W of the next chunk = W diag(Γ_C) + Uᵀ (T ∘ K)
template <class Real, Decay Kind>
void BackwardTile<Real, Kind>::advance_channels(Real* next) {
    for (Index column = 0; column < padded; column += kStep) {
        Vector<Real> until_end = broadcast(Real(1));
        for (Index step = count - 1; step >= 0; --step) {
            store(space.scratch + step * padded + column, until_end * load(key.row(step) + column));
            until_end *= load(decays.row(step) + column);
        }
        for (Index row = 0; row < head.columns; ++row)
            store(next + row * padded + column, until_end * load(state + row * padded + column));
    }
    multiply_add<Real, 1>({next, padded}, {next, padded}, head.columns, vectors, {{{update, kChunk, 1}, {space.scratch, padded}, count}});
}

// P and L, one step after the other; the keys (steps as lanes) age meanwhile and end as T ∘ K.
template <class Real, Decay Kind>
void BackwardTile<Real, Kind>::overlaps_by_channel() {
    typedef decltype(Vector<Real>{} < Vector<Real>{}) Mask;
    Real lane[kStep];
    for (int i = 0; i < kStep; ++i) lane[i] = Real(i);
    for (Index i = 0; i < count; ++i) {
        const Real *q = query.row(i), *e = lookup.row(i), *g = decays.row(i);
        const Index whole = i / kStep;  // vectors of earlier steps alone; the next one has this step in it
        const Mask earlier = load(lane) < broadcast(Real(i % kStep));
        Vector<Real> reading[kTimeVectors] = {}, overlap[kTimeVectors] = {};
        for (Index row = 0; row < head.key_dim; ++row) {
            Real* const keys = space.key_by_time + row * kChunk;
            const Vector<Real> decay = broadcast(g[row]), asked = broadcast(q[row]), looked_up = broadcast(e[row]);
#pragma GCC unroll 8
            for (Index part = 0; part < kTimeVectors; ++part) {
                if (part > whole) break;
                const Vector<Real> before = load(keys + part * kStep), after = decay * before;
                const Vector<Real> aged = part < whole ? after : (earlier ? after : before);
                store(keys + part * kStep, aged);
                reading[part] += asked * aged;
                overlap[part] += looked_up * aged;
            }
        }
        for (Index part = 0; part < kTimeVectors; ++part) {
            store(space.reading + i * kChunk + part * kStep, reading[part]);
            store(space.overlap + i * kChunk + part * kStep, overlap[part]);
        }
        for (Index j = 0; j < kChunk; ++j) {
            const Index here = i * kChunk + j;
            if (j > i) space.reading[here] = 0;
            space.overlap[here] = j < i ? space.erase[i] * space.overlap[here] : Real(0);
        }
    }
}

// dQ, dE, dK, dg and the gradient F of the chunk's first weights
template <class Real, Decay Kind>
void BackwardTile<Real, Kind>::backward_by_channels() {
    const bool whole = padded == head.key_dim, own_lookup = whole && head.lookups, own_decay = whole && head.per_channel;
    grad_lookup = {own_lookup ? head.grad_lookups + start * head.grad_lookup_step : space.grad_lookup,
                   own_lookup ? head.grad_lookup_step : padded};
    grad_decay = {own_decay ? head.grad_decay + start * head.grad_decay_step : space.grad_decays,
                  own_decay ? head.grad_decay_step : padded};
    for (Index here = 0; here < head.columns * kChunk; here += kStep)  // from here on -A dR in place of dR
        store(space.grad_solved + here, -load(space.erase + here % kChunk) * load(space.grad_solved + here));
    multiply<Real, 1>(grad_query, count, vectors, {{grad_read, {state, padded}, head.columns}});
    multiply<Real, 1>(grad_lookup, count, vectors, {{{space.grad_solved, 1, kChunk}, {state, padded}, head.columns}});
    fetch_ahead(6);
    multiply<Real, 1>(grad_key, count, vectors, {{{update, 1, kChunk}, {space.gradient, padded}, head.columns}});
    fetch_ahead(7);
    for (Index column = 0; column < padded; column += kStep) through_channels(column);
    if (finite()) {
        for (Index row = 0; row < head.columns; ++row)
            for (Index column = 0; column < padded; column += kStep) {
                Real* const here = space.gradient + row * padded + column;
                store(here, load(space.whole_decay + column) * load(here));
            }
        multiply_add<Real, 2>({space.gradient, padded}, {space.gradient, padded}, head.columns, vectors,
                              {{{space.grad_solved, kChunk, 1}, {space.lookup_from_start, padded}, count},
                               {grad_read_by_column, {space.query_from_start, padded}, count}});
    } else {
        backward_by_steps();
    }
    for (Index step = 0; step < count; ++step) {
        const Index time = start + step;
        if (head.lookups && !whole)
            std::memcpy(head.grad_lookups + time * head.grad_lookup_step, grad_lookup.row(step), bytes(head.key_dim));
        if (head.per_channel && !whole)
            std::memcpy(head.grad_decay + time * head.grad_decay_step, grad_decay.row(step), bytes(head.key_dim));
        if (head.decay && !head.per_channel) {
            Real sum = 0;
            for (Index column = 0; column < head.key_dim; ++column) sum += grad_decay.row(step)[column];
            head.grad_decay[time * head.grad_decay_step] = sum;
        }
    }
}

// One vector of channels, all steps. On entry the gradients hold (dY W)_i, -(A dR W)_i and (U F)_j.
//
// g_t meets whatever is stored before step t and used from it on: dg_t = Σ_{j<t} (D_{t-1,j} ∘ k_j) ∘ Z_tj, with Z_tj the gradient
// of the aged key D_tj ∘ k_j through all steps from t on. W before the chunk counts as one more key, whose age is Γ.
template <class Real, Decay Kind>
void BackwardTile<Real, Kind>::through_channels(Index column) {
    Vector<Real> aged[kChunk][kChunk], since_start[kChunk + 1], source[kChunk], later[kChunk];
    since_start[0] = broadcast(Real(1));
    for (Index i = 0; i < count; ++i) {
        const Vector<Real> decay = load(decays.row(i) + column), since = since_start[i + 1] = decay * since_start[i];
        const Vector<Real> asked = load(query.row(i) + column), looked_up = load(lookup.row(i) + column);
        const Vector<Real> read = load(grad_query.row(i) + column), retrieved = load(grad_lookup.row(i) + column);
        const Real *grad_reading = space.grad_reading + i * kChunk, *grad_overlap = space.grad_overlap + i * kChunk;
        Vector<Real> grad_asked = since * read, grad_looked_up = since * retrieved;
        for (Index j = 0; j < i; ++j) {
            const Vector<Real> key_then = aged[i][j] = decay * aged[i - 1][j];
            grad_asked += grad_reading[j] * key_then;
            grad_looked_up += grad_overlap[j] * key_then;
        }
        aged[i][i] = load(key.row(i) + column);
        grad_asked += grad_reading[i] * aged[i][i];
        later[i] = load(grad_key.row(i) + column);
        source[i] = asked * read + looked_up * retrieved;
        store(space.query_from_start + i * padded + column, since * asked);
        store(space.lookup_from_start + i * padded + column, since * looked_up);
        store(grad_query.row(i) + column, grad_asked);
        store(grad_lookup.row(i) + column, grad_looked_up);
    }
    store(space.whole_decay + column, since_start[count]);
    Vector<Real> start_later = {};
    for (Index row = 0; row < head.columns; ++row)
        start_later += load(state + row * padded + column) * load(space.gradient + row * padded + column);
    Vector<Real> decay = broadcast(Real(1));  // of the step after
    for (Index t = count - 1; t >= 0; --t) {
        const Vector<Real> asked = load(query.row(t) + column), looked_up = load(lookup.row(t) + column);
        const Real *grad_reading = space.grad_reading + t * kChunk, *grad_overlap = space.grad_overlap + t * kChunk;
        start_later = decay * start_later + source[t];
        Vector<Real> grad = start_later * since_start[t];
        for (Index j = 0; j < t; ++j) {
            later[j] = decay * later[j] + (grad_reading[j] * asked + grad_overlap[j] * looked_up);
            grad += later[j] * aged[t - 1][j];
        }
        Vector<Real> grad_written = decay * later[t] + grad_reading[t] * asked;
        if (!head.lookups) grad_written += load(grad_lookup.row(t) + column);
        store(grad_key.row(t) + column, grad_written);
        store(grad_decay.row(t) + column, grad);
        decay = load(decays.row(t) + column);
    }
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
