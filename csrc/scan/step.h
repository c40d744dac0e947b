// A single step, as in generation: the rows of W are read, changed and written where they are.
//
//   r = g w · k ;   u = b v - a r ;   w ← g w + u k ;   y = w · q      for each row w of W, with v its value
#pragma once

#include "scan/forward.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// Several rows at once, so that the sums over lanes of one hide behind those of the others. Rows of a width that the compiler knows
// (Width > 0) stay in registers between retrieving and writing; others (Width = 0) are read twice.
template <class Real, int Count, int Width, bool Decay>
FASTWEIGHTS_INLINE void step_rows(const HeadForward<Real>& head, const Real* weights, Index first, const Real* key, const Real* query) {
    constexpr int lanes = kLanes<Real>;
    const Index width = Width ? Width : head.key_dim, whole = width / lanes * lanes, rest = width - whole;
    const Real* const old_rows = weights + first * width;
    Real* const new_rows = head.final_weights + first * width;
    const Real decay = Decay ? *head.decay : Real(1), write = *head.write, erase = *head.erase;
    Vector<Real> held[Count][Width ? Width / lanes : 1], sums[Count] = {};
#pragma GCC unroll 8
    for (Index column = 0; column < whole; column += lanes)
#pragma GCC unroll 8
        for (int row = 0; row < Count; ++row) {
            Vector<Real>& old = held[row][Width ? column / lanes : 0];
            old = load(old_rows + row * width + column);
            sums[row] += old * load(key + column);
        }
    for (int row = 0; rest && row < Count; ++row) sums[row] += load_part(old_rows + row * width + whole, rest) * load(key + whole);
    Real retrieved[Count], update[Count];
#pragma GCC unroll 8
    for (int row = 0; row < Count; ++row) {
        retrieved[row] = decay * sum_of_lanes<Real>(sums[row]);
        update[row] = write * head.values[first + row] - erase * retrieved[row];
        sums[row] = Vector<Real>{};
    }
    if (head.retrieved) std::memcpy(head.retrieved + first, retrieved, sizeof(retrieved));
    const auto written = [&](Vector<Real> old, int row, Index column) __attribute__((always_inline)) {
        if (Decay) old *= decay;
        old += update[row] * load(key + column);
        sums[row] += old * load(query + column);
        return old;
    };
#pragma GCC unroll 8
    for (Index column = 0; column < whole; column += lanes)
#pragma GCC unroll 8
        for (int row = 0; row < Count; ++row) {
            Vector<Real>& old = held[row][Width ? column / lanes : 0];
            if (!Width) old = load(old_rows + row * width + column);
            store(new_rows + row * width + column, written(old, row, column));
        }
    for (int row = 0; rest && row < Count; ++row)
        store_part(new_rows + row * width + whole, written(load_part(old_rows + row * width + whole, rest), row, whole), rest);
#pragma GCC unroll 8
    for (int row = 0; row < Count; ++row) head.reads[first + row] = sum_of_lanes<Real>(sums[row]);
}

template <class Real, int Width, bool Decay>
void step_all_rows(const HeadForward<Real>& head, const Real* weights, const Real* key, const Real* query) {
    constexpr int together = 4;
    Index row = 0;
    for (; row + together <= head.columns; row += together) step_rows<Real, together, Width, Decay>(head, weights, row, key, query);
    for (; row < head.columns; ++row) step_rows<Real, 1, Width, Decay>(head, weights, row, key, query);
}

// The workspace holds a key and a query, each padded with zeros to whole vectors.
template <class Real, bool Decay>
void forward_step(const HeadForward<Real>& head, Real* workspace) {
    const Index padded = round_up(head.key_dim, kLanes<Real>);
    const Real *key = head.keys, *query = head.queries;
    if (padded != head.key_dim) {
        copy_padded(workspace, key, head.key_dim, padded);
        copy_padded(workspace + padded, query, head.key_dim, padded);
        key = workspace, query = workspace + padded;
    }
    const Real* weights = head.weights;
    if (!weights) {
        std::memset(head.final_weights, 0, static_cast<std::size_t>(head.columns * head.key_dim) * sizeof(Real));
        weights = head.final_weights;
    }
    constexpr int held = 4 * kLanes<Real>;
    if (kRegisters == 32 && head.key_dim == held) return step_all_rows<Real, held, Decay>(head, weights, key, query);
    step_all_rows<Real, 0, Decay>(head, weights, key, query);
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
