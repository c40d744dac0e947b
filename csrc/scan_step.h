// A single step, as in generation: the rows of W are read, changed and written where they are.
//
//   r = g w · k ;   u = b v - a r ;   w ← g w + u k ;   y = w · q      for each row w of W, with v its value
#pragma once

#include "scan_forward.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// Several rows at once, so that the sums over lanes of one hide behind those of the others.
template <class Real, int Count, bool Decay>
FASTWEIGHTS_INLINE void step_rows(const HeadForward<Real>& head, const Real* weights, Index first, const Real* key, const Real* query) {
    constexpr int lanes = kLanes<Real>;
    const Index width = head.key_dim, whole = width / lanes * lanes, rest = width - whole;
    const Real* const old_rows = weights + first * width;
    Real* const new_rows = head.final_weights + first * width;
    const Real decay = Decay ? *head.decay : Real(1);
    Vector<Real> sums[Count] = {}, last[Count] = {};
    for (Index column = 0; column < whole; column += lanes)
#pragma GCC unroll 8
        for (int row = 0; row < Count; ++row) sums[row] += load(old_rows + row * width + column) * load(key + column);
    for (int row = 0; rest && row < Count; ++row) {
        last[row] = load_part(old_rows + row * width + whole, rest);
        sums[row] += last[row] * load(key + whole);
    }
    Real update[Count];
#pragma GCC unroll 8
    for (int row = 0; row < Count; ++row) {
        const Real retrieved = decay * sum_of_lanes<Real>(sums[row]);
        if (head.retrieved) head.retrieved[first + row] = retrieved;
        update[row] = *head.write * head.values[first + row] - *head.erase * retrieved;
        sums[row] = Vector<Real>{};
    }
    const auto written = [&](Vector<Real> weights, int row, Index column) __attribute__((always_inline)) {
        if (Decay) weights *= decay;
        weights += update[row] * load(key + column);
        sums[row] += weights * load(query + column);
        return weights;
    };
    for (Index column = 0; column < whole; column += lanes)
#pragma GCC unroll 8
        for (int row = 0; row < Count; ++row)
            store(new_rows + row * width + column, written(load(old_rows + row * width + column), row, column));
    for (int row = 0; rest && row < Count; ++row)
        store_part(new_rows + row * width + whole, written(last[row], row, whole), rest);
#pragma GCC unroll 8
    for (int row = 0; row < Count; ++row) head.reads[first + row] = sum_of_lanes<Real>(sums[row]);
}

// The workspace holds a key and a query, each padded with zeros to whole vectors.
template <class Real, bool Decay>
void forward_step(const HeadForward<Real>& head, Real* workspace) {
    constexpr Index together = 4;
    const Index padded = round_up(head.key_dim, kLanes<Real>);
    Real *key = workspace, *query = key + padded;
    copy_padded(key, head.keys, head.key_dim, padded);
    copy_padded(query, head.queries, head.key_dim, padded);
    const Real* weights = head.weights;
    if (!weights) {
        std::memset(head.final_weights, 0, static_cast<std::size_t>(head.columns * head.key_dim) * sizeof(Real));
        weights = head.final_weights;
    }
    Index row = 0;
    for (; row + together <= head.columns; row += together) step_rows<Real, together, Decay>(head, weights, row, key, query);
    for (; row < head.columns; ++row) step_rows<Real, 1, Decay>(head, weights, row, key, query);
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
