// Forward scan of a few rows of W, held as they are (vectors along the keys).
//
// The form for very few value columns, where vectors along the values would be mostly empty. One pass over the rows per step, as
// in scan/forward.h.
#pragma once

#include "scan/forward.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

constexpr int kRowsAtOnce = 4;

// w ← g w + u k, and with the new w:  read = w · q,  next = w · k'.
template <class Real, int Count, bool Decay>
FASTWEIGHTS_INLINE void update_rows(Real* rows, Index padded, const Real* key, const Real* query, const Real* next_key, Real decay,
                                    const Real (&update)[Count], Real (&read)[Count], Real (&next)[Count]) {
    constexpr int lanes = kLanes<Real>;
    Vector<Real> reads[Count] = {}, nexts[Count] = {};
    for (Index column = 0; column < padded; column += lanes) {
        const Vector<Real> written = load(key + column), asked = load(query + column), following = load(next_key + column);
#pragma GCC unroll 4
        for (int row = 0; row < Count; ++row) {
            Vector<Real> weights = load(rows + row * padded + column);
            if (Decay) weights *= decay;
            weights += update[row] * written;
            store(rows + row * padded + column, weights);
            reads[row] += weights * asked;
            nexts[row] += weights * following;
        }
    }
    for (int row = 0; row < Count; ++row) read[row] = sum_of_lanes<Real>(reads[row]), next[row] = sum_of_lanes<Real>(nexts[row]);
}

template <class Real, int Count>
FASTWEIGHTS_INLINE void retrieve_rows(const Real* rows, Index padded, const Real* key, Real (&retrieved)[Count]) {
    constexpr int lanes = kLanes<Real>;
    Vector<Real> sums[Count] = {};
    for (Index column = 0; column < padded; column += lanes)
#pragma GCC unroll 4
        for (int row = 0; row < Count; ++row) sums[row] += load(rows + row * padded + column) * load(key + column);
    for (int row = 0; row < Count; ++row) retrieved[row] = sum_of_lanes<Real>(sums[row]);
}

// The workspace holds Count rows, two keys and a query, each padded with zeros to whole vectors.
template <class Real, int Count, bool Decay>
void forward_rows(const HeadForward<Real>& head, Real* workspace) {
    const Index key_dim = head.key_dim, padded = round_up(key_dim, kLanes<Real>);
    Real *rows = workspace, *key = rows + Count * padded, *next_key = key + padded, *query = next_key + padded;
    for (int row = 0; row < Count; ++row) {
        if (head.weights)
            copy_padded(rows + row * padded, head.weights + row * key_dim, key_dim, padded);
        else
            std::memset(rows + row * padded, 0, static_cast<std::size_t>(padded) * sizeof(Real));
    }
    Real retrieved[Count] = {}, update[Count], read[Count], next[Count];
    if (head.steps > 0) {
        copy_padded(next_key, head.keys, key_dim, padded);
        retrieve_rows<Real, Count>(rows, padded, next_key, retrieved);
    }
    for (Index step = 0; step < head.steps; ++step) {
        Real* const spare = key;
        key = next_key, next_key = spare;
        copy_padded(query, head.queries + step * head.query_step, key_dim, padded);
        if (step + 1 < head.steps) copy_padded(next_key, head.keys + (step + 1) * head.key_step, key_dim, padded);
        const Real decay = Decay ? head.decay[step * head.decay_step] : Real(1);
        const Real erase = head.erase[step * head.erase_step], write = head.write[step * head.write_step];
        for (int row = 0; row < Count; ++row) {
            if (Decay) retrieved[row] *= decay;
            update[row] = write * head.values[step * head.value_step + row] - erase * retrieved[row];
            if (head.retrieved) head.retrieved[step * head.value_dim + row] = retrieved[row];
        }
        update_rows<Real, Count, Decay>(rows, padded, key, query, step + 1 < head.steps ? next_key : key, decay, update, read, next);
        for (int row = 0; row < Count; ++row) head.reads[step * head.read_step + row] = read[row], retrieved[row] = next[row];
        const Index done = step + 1;
        if (head.checkpoints && done < head.steps && done % head.checkpoint_every == 0)
            for (int row = 0; row < Count; ++row)
                std::memcpy(head.checkpoints + (done / head.checkpoint_every - 1) * head.value_dim * key_dim + row * key_dim, rows + row * padded,
                            static_cast<std::size_t>(key_dim) * sizeof(Real));
    }
    for (int row = 0; row < Count; ++row)
        std::memcpy(head.final_weights + row * key_dim, rows + row * padded, static_cast<std::size_t>(key_dim) * sizeof(Real));
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
