// One chunk of the backward scan step by step, for chunks with a NaN or an infinity in them.
//
// In the products of scan_backward_chunk.h a later step meets an earlier one with the factor zero, and zero times NaN is NaN. Here
// every number goes exactly where the recurrence takes it. Slow (W is computed again for every step), and rarely needed.
#pragma once

#include "scan/backward.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// True if no number of this chunk's results is a NaN or an infinity; those of dK follow from the others.
template <class Real, bool Decay>
bool BackwardTile<Real, Decay>::finite() const {
    Vector<Real> sum = {};
    for (Index here = 0; here < head.columns * kChunk; here += kStep) sum += load(space.grad_solved + here) * Real(0);
    for (Index step = 0; step < count; ++step)
        for (Index column = 0; column < padded; column += kStep) sum += load(grad_query.row(step) + column) * Real(0);
    return sum_of_lanes<Real>(sum) == 0;
}

// W after `steps` steps of the chunk.
template <class Real, bool Decay>
void BackwardTile<Real, Decay>::state_after(Index steps, Real* to) const {
    std::memcpy(to, state, bytes(state_size));
    for (Index step = 0; step < steps; ++step)
        for (Index row = 0; row < head.columns; ++row)
            for (Index column = 0; column < head.key_dim; ++column) {
                Real& weight = to[row * padded + column];
                if (Decay) weight *= space.decay[step];
                weight += update[row * kChunk + step] * key.row(step)[column];
            }
}

template <class Real, bool Decay>
void BackwardTile<Real, Decay>::backward_by_steps() {
    const Index columns = head.columns, key_dim = head.key_dim;
    for (Index step = count - 1; step >= 0; --step) {
        const Real *k = key.row(step), *q = query.row(step), *grad_read_row = grad_read.data + step * grad_read.row;
        const Real decay = Decay ? space.decay[step] : Real(1), erase = space.erase[step];
        Real *grad_k = grad_key.row(step), *grad_q = grad_query.row(step);
        Real grad_erase = 0, grad_write = 0, grad_decay = 0;
        state_after(step, space.before);
        std::memset(grad_k, 0, bytes(key_dim)), std::memset(grad_q, 0, bytes(key_dim));
        for (Index row = 0; row < columns; ++row) {
            Real *gradient = space.gradient + row * padded, *before = space.before + row * padded;
            const Real written = update[row * kChunk + step], grad_y = grad_read_row[row];
            Real grad_update = 0, decayed = 0;
            for (Index i = 0; i < key_dim; ++i) {
                grad_q[i] += grad_y * (decay * before[i] + written * k[i]);
                gradient[i] += grad_y * q[i];
                grad_update += gradient[i] * k[i];
                grad_k[i] += gradient[i] * written;
            }
            const Real grad_retrieved = -erase * grad_update;
            for (Index i = 0; i < key_dim; ++i) {
                grad_k[i] += grad_retrieved * (decay * before[i]);
                gradient[i] += grad_retrieved * k[i];
                decayed += gradient[i] * before[i];
                if (Decay) gradient[i] *= decay;
            }
            grad_write += grad_update * value_row(step)[row];
            grad_erase -= grad_update * retrieved_row(step)[row];
            grad_decay += decayed;
            head.grad_values[(start + step) * head.grad_value_step + row] = space.write[step] * grad_update;
        }
        head.grad_erase[(start + step) * head.grad_erase_step] = grad_erase;
        head.grad_write[(start + step) * head.grad_write_step] = grad_write;
        if (Decay) head.grad_decay[(start + step) * head.grad_decay_step] = grad_decay;
    }
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
