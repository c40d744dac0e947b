// One chunk of the backward scan: the equations of scan_backward.h, in their order.
#pragma once

#include "scan_backward.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real, bool Decay>
void BackwardTile<Real, Decay>::backward() {
    const Index columns = head.columns;
    const bool whole = padded == head.key_dim;
    grad_query = {whole ? head.grad_queries + start * head.grad_query_step : space.grad_query, whole ? head.grad_query_step : padded};
    grad_key = {whole ? head.grad_keys + start * head.grad_key_step : space.grad_key, whole ? head.grad_key_step : padded};
    load_by_time(space.key_by_time, key.data, key.stride, padded);
    overlaps();
    invert();
    solve();
    grad_overlaps();
    // from here on the workspace holds -A dR in place of dR
    for (Index here = 0; here < columns * kChunk; here += kStep)
        store(space.grad_solved + here, -load(space.erase + here % kChunk) * load(space.grad_solved + here));
    grad_queries();
    grad_keys();
    for (Index step = 0; !whole && step < count; ++step) {
        std::memcpy(head.grad_queries + (start + step) * head.grad_query_step, grad_query.row(step), bytes(head.key_dim));
        std::memcpy(head.grad_keys + (start + step) * head.grad_key_step, grad_key.row(step), bytes(head.key_dim));
    }
    if (Decay) {
        grad_decays();
        scale(space.gradient, space.gradient, space.since_start[count - 1]);
        for (Index here = 0; here < columns * kChunk; here += kStep)
            store(space.grad_solved + here, load(space.since_start + here % kChunk) * load(space.grad_solved + here));
    }
    const Rows<Real> gradient = {space.gradient, padded};
    const Rows<const Real> old_gradient = {space.gradient, padded};
    multiply_add<Real>(gradient, old_gradient, {space.grad_solved, kChunk, 1}, key, columns, count, vectors);
    multiply_add<Real>(gradient, old_gradient, grad_read_by_column, Decay ? scaled(query, space.since_start) : query, columns,
                       count, vectors);
}

// P and L, with D inside, and what the gradient of D needs of them.
template <class Real, bool Decay>
void BackwardTile<Real, Decay>::overlaps() {
    const Rows<const Real> key_by_time = {space.key_by_time, kChunk};
    multiply<Real>({space.reading, kChunk}, {query.data, query.stride, 1}, key_by_time, count, head.key_dim, kTimeVectors);
    multiply<Real>({space.overlap, kChunk}, {key.data, key.stride, 1}, key_by_time, count, head.key_dim, kTimeVectors);
    if (Decay) {
        std::memcpy(space.query_key, space.reading, bytes(count * kChunk));
        std::memcpy(space.key_key, space.overlap, bytes(count * kChunk));
    }
    for (Index i = 0; i < count; ++i)
        for (Index j = 0; j < kChunk; ++j) {
            const Index here = i * kChunk + j;
            const Real ratio = Decay ? space.ratio[here] : Real(1);
            space.reading[here] = j <= i ? space.reading[here] * ratio : Real(0);
            space.overlap[here] = j < i ? space.erase[i] * space.overlap[here] * ratio : Real(0);
        }
}

// (I + L)^-1 by forward substitution
template <class Real, bool Decay>
void BackwardTile<Real, Decay>::invert() {
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
template <class Real, bool Decay>
void BackwardTile<Real, Decay>::solve() {
    const Index columns = head.columns;
    const Rows<Real> grad_update = {space.grad_update, kChunk};
    multiply<Real>(grad_update, {space.gradient, padded, 1}, {space.key_by_time, kChunk}, columns, head.key_dim, kTimeVectors);
    if (Decay)
        for (Index here = 0; here < columns * kChunk; here += kStep)
            store(space.grad_update + here, load(space.grad_update + here) * load(space.until_end + here % kChunk));
    multiply_add<Real>(grad_update, {space.grad_update, kChunk}, grad_read_by_column, {space.reading, kChunk}, columns, count,
                       kTimeVectors);
    multiply<Real>({space.grad_solved, kChunk}, {space.grad_update, kChunk, 1}, {space.inverse, kChunk}, columns, count,
                   kTimeVectors);
    Real grad_erase[kChunk], grad_write[kChunk];
    for (Index lane = 0; lane < kChunk; lane += kStep) {
        Vector<Real> erased = {}, written = {};
        for (Index here = lane; here < columns * kChunk; here += kChunk) {
            const Vector<Real> solved = load(space.grad_solved + here);
            written += solved * load(values + here);
            erased -= solved * load(retrieved + here);
            store(space.grad_update + here, load(space.write + lane) * solved);
        }
        store(grad_write + lane, written), store(grad_erase + lane, erased);
    }
    for (Index step = 0; step < count; ++step) {
        head.grad_erase[(start + step) * head.grad_erase_step] = grad_erase[step];
        head.grad_write[(start + step) * head.grad_write_step] = grad_write[step];
    }
    transpose(head.grad_values + start * head.grad_value_step, head.grad_value_step, space.grad_update, kChunk, columns, count);
}

// dP ∘ D and dX + dXᵀ; dD
template <class Real, bool Decay>
void BackwardTile<Real, Decay>::grad_overlaps() {
    const Rows<const Real> updates = {update, kChunk};
    multiply<Real>({space.grad_reading, kChunk}, grad_read, updates, count, head.columns, kTimeVectors);
    multiply<Real>({space.grad_overlap, kChunk}, {space.grad_solved, 1, kChunk}, updates, count, head.columns, kTimeVectors);
    for (Index i = 0; i < count; ++i)
        for (Index j = 0; j < kChunk; ++j) {
            const Index here = i * kChunk + j;
            const Real ratio = Decay ? space.ratio[here] : Real(1);
            const Real reading = j <= i ? space.grad_reading[here] : Real(0);
            const Real overlap = j < i ? -space.erase[i] * space.grad_overlap[here] : Real(0);
            space.grad_reading[here] = reading * ratio;
            space.grad_overlap[here] = overlap * ratio;
            if (Decay)
                space.grad_ratio[here] = (j <= i ? reading * space.query_key[here] : Real(0)) +
                                         (j < i ? overlap * space.key_key[here] : Real(0));
        }
    for (Index i = 0; i < count; ++i)
        for (Index j = 0; j < i; ++j) space.grad_overlap[j * kChunk + i] = space.grad_overlap[i * kChunk + j];
}

template <class Real, bool Decay>
void BackwardTile<Real, Decay>::grad_queries() {
    multiply<Real>(grad_query, grad_read, {state, padded}, count, head.columns, vectors);
    if (Decay)
        for (Index i = 0; i < count; ++i) {
            space.grad_since_start[i] = dot(query.row(i), grad_query.row(i), padded);
            for (Index column = 0; column < padded; column += kStep)
                store(grad_query.row(i) + column, space.since_start[i] * load(grad_query.row(i) + column));
        }
    multiply_add<Real>(grad_query, {grad_query.data, grad_query.stride}, {space.grad_reading, kChunk, 1}, key, count, count,
                       vectors);
}

template <class Real, bool Decay>
void BackwardTile<Real, Decay>::grad_keys() {
    const Rows<const Real> so_far = {grad_key.data, grad_key.stride};
    const Left<Real> update_by_time = {update, 1, kChunk};
    multiply<Real>(grad_key, {space.grad_solved, 1, kChunk}, {state, padded}, count, head.columns, vectors);
    if (Decay) {
        multiply<Real>({space.scratch, padded}, update_by_time, {space.gradient, padded}, count, head.columns, vectors);
        for (Index i = 0; i < count; ++i) {
            const Real* from_gradient = space.scratch + i * padded;
            space.grad_since_start[i] += dot(key.row(i), grad_key.row(i), padded);
            space.grad_ratio[(count - 1) * kChunk + i] += dot(key.row(i), from_gradient, padded);
            for (Index column = 0; column < padded; column += kStep)
                store(grad_key.row(i) + column, space.since_start[i] * load(grad_key.row(i) + column) +
                                                    space.until_end[i] * load(from_gradient + column));
        }
    } else {
        multiply_add<Real>(grad_key, so_far, update_by_time, {space.gradient, padded}, count, head.columns, vectors);
    }
    multiply_add<Real>(grad_key, so_far, {space.grad_reading, 1, kChunk}, query, count, count, vectors);
    multiply_add<Real>(grad_key, so_far, {space.grad_overlap, kChunk, 1}, key, count, count, vectors);
}

// Back through D_ij = g_i D_{i-1,j} and Γ_i = g_i Γ_{i-1}, last step first.
template <class Real, bool Decay>
void BackwardTile<Real, Decay>::grad_decays() {
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
