// One chunk of the backward scan step by step, for chunks with a NaN or an infinity in them.
//
// In the products of scan/chunk_products.h a later step meets an earlier one with the factor zero, and zero times NaN is NaN. Here
// every number goes exactly where the recurrence takes it. Slow (W is computed again for every step), and rarely needed.
#pragma once

#include "scan/chunk_backward.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// True if no number of this chunk's results is a NaN or an infinity; those of dK follow from the others.
template <class Real, Decay Kind>
bool BackwardTile<Real, Kind>::finite() const {
    Vector<Real> sum = {};
    for (Index here = 0; here < head.columns * kChunk; here += kStep) sum += load(space.grad_solved + here) * Real(0);
    const auto add_rows = [&](Rows<Real> rows) {
        for (Index step = 0; step < count; ++step)
            for (Index column = 0; column < padded; column += kStep) sum += load(rows.row(step) + column) * Real(0);
    };
    add_rows(grad_query);
    if (kChannels) add_rows(grad_key), add_rows(grad_lookup), add_rows(grad_decay);
    return sum_of_lanes<Real>(sum) == 0;
}

// W after `steps` steps of the chunk.
template <class Real, Decay Kind>
void BackwardTile<Real, Kind>::state_after(Index steps, Real* to) const {
    std::memcpy(to, state, bytes(state_size));
    for (Index step = 0; step < steps; ++step)
        for (Index row = 0; row < head.columns; ++row)
            for (Index column = 0; column < head.key_dim; ++column) {
                Real& weight = to[row * padded + column];
                if (kHead) weight *= space.decay[step];
                if (kChannels) weight *= decays.row(step)[column];
                weight += update[row * kChunk + step] * key.row(step)[column];
            }
}

template <class Real, Decay Kind>
void BackwardTile<Real, Kind>::backward_by_steps() {
    const Index columns = head.columns, key_dim = head.key_dim;
    for (Index step = count - 1; step >= 0; --step) {
        const Real *k = key.row(step), *q = query.row(step), *e = kChannels ? lookup.row(step) : k;
        const Real *grad_read_row = grad_read.data + step * grad_read.row, erase = space.erase[step];
        const auto decay = [&](Index i) { return kChannels ? decays.row(step)[i] : kHead ? space.decay[step] : Real(1); };
        Real *grad_k = grad_key.row(step), *grad_q = grad_query.row(step), *grad_e = kChannels ? grad_lookup.row(step) : grad_k;
        Real grad_erase = 0, grad_write = 0, grad_decay_sum = 0;
        state_after(step, space.before);
        std::memset(grad_k, 0, bytes(key_dim)), std::memset(grad_q, 0, bytes(key_dim)), std::memset(grad_e, 0, bytes(key_dim));
        if (kChannels) std::memset(grad_decay.row(step), 0, bytes(key_dim));
        for (Index row = 0; row < columns; ++row) {
            Real *gradient = space.gradient + row * padded, *before = space.before + row * padded;
            const Real written = update[row * kChunk + step], grad_y = grad_read_row[row];
            Real grad_update = 0, decayed = 0;
            for (Index i = 0; i < key_dim; ++i) {
                grad_q[i] += grad_y * (decay(i) * before[i] + written * k[i]);
                gradient[i] += grad_y * q[i];
                grad_update += gradient[i] * k[i];
                grad_k[i] += gradient[i] * written;
            }
            const Real grad_retrieved = -erase * grad_update;
            for (Index i = 0; i < key_dim; ++i) {
                grad_e[i] += grad_retrieved * (decay(i) * before[i]);
                gradient[i] += grad_retrieved * e[i];
                if (kChannels)
                    grad_decay.row(step)[i] += gradient[i] * before[i];
                else
                    decayed += gradient[i] * before[i];
                if (Kind != Decay::None) gradient[i] *= decay(i);
            }
            grad_write += grad_update * value_row(step)[row];
            grad_erase -= grad_update * retrieved_row(step)[row];
            grad_decay_sum += decayed;
            head.grad_values[(start + step) * head.grad_value_step + row] = space.write[step] * grad_update;
        }
        for (Index i = 0; kChannels && !head.lookups && i < key_dim; ++i) grad_k[i] += grad_e[i];
        head.grad_erase[(start + step) * head.grad_erase_step] = grad_erase;
        head.grad_write[(start + step) * head.grad_write_step] = grad_write;
        if (kHead) head.grad_decay[(start + step) * head.grad_decay_step] = grad_decay_sum;
    }
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
