// One chunk of the backward scan: the equations of scan/chunk_backward.h, in their order.
#pragma once

#include "scan/chunk_backward.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real, Decay Kind>
void BackwardTile<Real, Kind>::backward() {
    const bool whole = padded == head.key_dim;
    grad_query = {whole ? head.grad_queries + start * head.grad_query_step : space.grad_query, whole ? head.grad_query_step : padded};
    grad_key = {whole ? head.grad_keys + start * head.grad_key_step : space.grad_key, whole ? head.grad_key_step : padded};
    fetch_ahead(0);
    load_by_time(space.key_by_time, key.data, key.stride, padded);
    fetch_ahead(1);
    if constexpr (kChannels)
        overlaps_by_channel();
    else
        overlaps();
    invert();
    fetch_ahead(2);
    solve();
    fetch_ahead(4);
    grad_overlaps();
    fetch_ahead(5);
    if constexpr (kChannels) {
        backward_by_channels();
    } else {
        grad_queries();
        finite() ? backward_by_products() : backward_by_steps();
    }
    for (Index step = 0; !whole && step < count; ++step) {
        std::memcpy(head.grad_queries + (start + step) * head.grad_query_step, grad_query.row(step), bytes(head.key_dim));
        std::memcpy(head.grad_keys + (start + step) * head.grad_key_step, grad_key.row(step), bytes(head.key_dim));
    }
}

// dK, dg and the gradient F of the chunk's first weights
template <class Real, Decay Kind>
void BackwardTile<Real, Kind>::backward_by_products() {
    const Index size = head.columns * kChunk;
    // from here on the workspace holds -A dR in place of dR
    for (Index here = 0; here < size; here += kStep)
        store(space.grad_solved + here, -load(space.erase + here % kChunk) * load(space.grad_solved + here));
    fetch_ahead(6);
    grad_keys();
    fetch_ahead(7);
    if (kHead) {
        grad_decays();
        scale(space.gradient, space.gradient, space.since_start[count - 1]);
        for (Index here = 0; here < size; here += kStep)
            store(space.grad_solved + here, load(space.since_start + here % kChunk) * load(space.grad_solved + here));
    }
    multiply_add<Real, 2>({space.gradient, padded}, {space.gradient, padded}, head.columns, vectors,
                          {{{space.grad_solved, kChunk, 1}, key, count},
                           {grad_read_by_column, kHead ? scaled(query, space.since_start) : query, count}});
}

// P and L, with D inside, and what the gradient of D needs of them.
template <class Real, Decay Kind>
void BackwardTile<Real, Kind>::overlaps() {
    const Rows<const Real> key_by_time = {space.key_by_time, kChunk};
    multiply<Real, 1>({space.reading, kChunk}, count, kTimeVectors, {{{query.data, query.stride, 1}, key_by_time, head.key_dim}});
    multiply<Real, 1>({space.overlap, kChunk}, count, kTimeVectors, {{{key.data, key.stride, 1}, key_by_time, head.key_dim}});
    if (kHead) {
        std::memcpy(space.query_key, space.reading, bytes(count * kChunk));
        std::memcpy(space.key_key, space.overlap, bytes(count * kChunk));
    }
    for (Index i = 0; i < count; ++i)
        for (Index j = 0; j < kChunk; ++j) {
            const Index here = i * kChunk + j;
            const Real ratio = kHead ? space.ratio[here] : Real(1);
            space.reading[here] = j <= i ? space.reading[here] * ratio : Real(0);
            space.overlap[here] = j < i ? space.erase[i] * space.overlap[here] * ratio : Real(0);
        }
}

// (I + L)^-1 by forward substitution
template <class Real, Decay Kind>
void BackwardTile<Real, Kind>::invert() {
    for (Index i = 0; i < count; ++i) {
        Vector<Real> row[kTimeVectors] = {};
        for (Index j = 0; j < i; ++j)
            for (Index part = 0; part < kTimeVectors; ++part)
                row[part] -= space.overlap[i * kChunk + j] * load(space.inverse + j * kChunk + part * kStep);
        for (Index part = 0; part < kTimeVectors; ++part) store(space.inverse + i * kChunk + part * kStep, row[part]);
        space.inverse[i * kChunk + i] = 1;
    }
}

// dU and dR, and the gradients of values, write and erase that follow from dR
template <class Real, Decay Kind>
void BackwardTile<Real, Kind>::solve() {
    const Index columns = head.columns;
    const Rows<Real> grad_update = {space.grad_update, kChunk};
    const Term<Real> through_weights = {{space.gradient, padded, 1}, {space.key_by_time, kChunk}, head.key_dim};
    const Term<Real> through_reads = {grad_read_by_column, {space.reading, kChunk}, count};
    if (kHead) {
        multiply<Real, 1>(grad_update, columns, kTimeVectors, {through_weights});
        for (Index here = 0; here < columns * kChunk; here += kStep)
            store(space.grad_update + here, load(space.grad_update + here) * load(space.until_end + here % kChunk));
        multiply_add<Real, 1>(grad_update, {space.grad_update, kChunk}, columns, kTimeVectors, {through_reads});
    } else {
        multiply<Real, 2>(grad_update, columns, kTimeVectors, {through_weights, through_reads});
    }
    fetch_ahead(3);
    multiply<Real, 1>({space.grad_solved, kChunk}, columns, kTimeVectors,
                      {{{space.grad_update, kChunk, 1}, {space.inverse, kChunk}, count}});
    Real* const rows = space.grad_update;
    transpose(rows, columns, space.grad_solved, kChunk, columns, count);
    for (Index step = 0; step < count; ++step) {
        const Real* const solved = rows + step * columns;
        Real* const grad_values = head.grad_values + (start + step) * head.grad_value_step;
        for (Index column = 0; column < columns; ++column) grad_values[column] = space.write[step] * solved[column];
        head.grad_write[(start + step) * head.grad_write_step] = dot(solved, value_row(step), columns);
        head.grad_erase[(start + step) * head.grad_erase_step] = -dot(solved, retrieved_row(step), columns);
    }
}

// dP ∘ D and dX + dXᵀ; dD. Per channel: dP and dX alone
template <class Real, Decay Kind>
void BackwardTile<Real, Kind>::grad_overlaps() {
    const Rows<const Real> updates = {update, kChunk};
    multiply<Real, 1>({space.grad_reading, kChunk}, count, kTimeVectors, {{grad_read, updates, head.columns}});
    multiply<Real, 1>({space.grad_overlap, kChunk}, count, kTimeVectors, {{{space.grad_solved, 1, kChunk}, updates, head.columns}});
    for (Index i = 0; i < count; ++i)
        for (Index j = 0; j < kChunk; ++j) {
            const Index here = i * kChunk + j;
            const Real ratio = kHead ? space.ratio[here] : Real(1);
            const Real reading = j <= i ? space.grad_reading[here] : Real(0);
            const Real overlap = j < i ? -space.erase[i] * space.grad_overlap[here] : Real(0);
            space.grad_reading[here] = reading * ratio;
            space.grad_overlap[here] = overlap * ratio;
            if (kHead)
                space.grad_ratio[here] = (j <= i ? reading * space.query_key[here] : Real(0)) +
                                         (j < i ? overlap * space.key_key[here] : Real(0));
        }
    if (kChannels) return;
    for (Index i = 0; i < count; ++i)
        for (Index j = 0; j < i; ++j) space.grad_overlap[j * kChunk + i] = space.grad_overlap[i * kChunk + j];
}

template <class Real, Decay Kind>
void BackwardTile<Real, Kind>::grad_queries() {
    const Term<Real> through_state = {grad_read, {state, padded}, head.columns};
    const Term<Real> through_updates = {{space.grad_reading, kChunk, 1}, key, count};
    if (!kHead) return multiply<Real, 2>(grad_query, count, vectors, {through_state, through_updates});
    multiply<Real, 1>(grad_query, count, vectors, {through_state});
    for (Index i = 0; i < count; ++i) {
        space.grad_since_start[i] = dot(query.row(i), grad_query.row(i), padded);
        for (Index column = 0; column < padded; column += kStep)
            store(grad_query.row(i) + column, space.since_start[i] * load(grad_query.row(i) + column));
    }
    multiply_add<Real, 1>(grad_query, {grad_query.data, grad_query.stride}, count, vectors, {through_updates});
}

template <class Real, Decay Kind>
void BackwardTile<Real, Kind>::grad_keys() {
    const Term<Real> through_state = {{space.grad_solved, 1, kChunk}, {state, padded}, head.columns};
    const Term<Real> through_final = {{update, 1, kChunk}, {space.gradient, padded}, head.columns};
    const Term<Real> through_reads = {{space.grad_reading, 1, kChunk}, query, count};
    const Term<Real> through_keys = {{space.grad_overlap, kChunk, 1}, key, count};
    if (!kHead) return multiply<Real, 4>(grad_key, count, vectors, {through_state, through_final, through_reads, through_keys});
    multiply<Real, 1>(grad_key, count, vectors, {through_state});
    multiply<Real, 1>({space.scratch, padded}, count, vectors, {through_final});
    for (Index i = 0; i < count; ++i) {
        const Real* from_final = space.scratch + i * padded;
        space.grad_since_start[i] += dot(key.row(i), grad_key.row(i), padded);
        space.grad_ratio[(count - 1) * kChunk + i] += dot(key.row(i), from_final, padded);
        for (Index column = 0; column < padded; column += kStep)
            store(grad_key.row(i) + column, space.since_start[i] * load(grad_key.row(i) + column) +
                                                space.until_end[i] * load(from_final + column));
    }
    multiply_add<Real, 2>(grad_key, {grad_key.data, grad_key.stride}, count, vectors, {through_reads, through_keys});
}

// Back through D_ij = g_i D_{i-1,j} and Γ_i = g_i Γ_{i-1}, last step first.
template <class Real, Decay Kind>
void BackwardTile<Real, Kind>::grad_decays() {
    space.grad_since_start[count - 1] += dot(space.gradient, state, state_size);
    for (Index i = count - 1; i >= 0; --i) {
        Real grad = space.grad_since_start[i] * (i ? space.since_start[i - 1] : Real(1));
        if (i) space.grad_since_start[i - 1] += space.decay[i] * space.grad_since_start[i];
        for (Index j = 0; j < i; ++j) {
            const Index here = i * kChunk + j;
            grad += space.grad_ratio[here] * space.ratio[here - kChunk];
            space.grad_ratio[here - kChunk] += space.decay[i] * space.grad_ratio[here];
        }
        head.grad_decay[(start + i) * head.grad_decay_step] = grad;
    }
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
