// A single step, as in generation: the rows of W are read, changed and written where they are.
//
//   r = (g ∘ w) · e ;   u = b v - a r ;   w ← g ∘ w + u k ;   y = w · q      for each row w of W, with v its value
#pragma once

#include "scan/forward.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// W before the step and what it meets, padded to whole vectors; `lookup` is g ∘ e where there is a decay for each component.
template <class Real>
struct StepVectors {
    const Real *weights, *key, *query, *lookup, *decays;
};

// Several rows at once, so that the sums over lanes of one hide behind those of the others. Rows of a width that the compiler knows
// (Width > 0) stay in registers between retrieving and writing; others (Width = 0) are read twice.
template <class Real, int Count, int Width, Decay Kind>
FASTWEIGHTS_INLINE void step_rows(const HeadForward<Real>& head, const StepVectors<Real>& step, Index first) {
    constexpr int lanes = kLanes<Real>;
    const Index width = Width ? Width : head.key_dim, whole = width / lanes * lanes, rest = width - whole;
    const Real *const old_rows = step.weights + first * width, *const key = step.key, *const query = step.query;
    Real* const new_rows = head.final_weights + first * width;
    const Real decay = Kind == Decay::Head ? *head.decay : Real(1), write = *head.write, erase = *head.erase;
    Vector<Real> held[Count][Width ? Width / lanes : 1], sums[Count] = {};
#pragma GCC unroll 8
    for (Index column = 0; column < whole; column += lanes)
#pragma GCC unroll 8
        for (int row = 0; row < Count; ++row) {
            Vector<Real>& old = held[row][Width ? column / lanes : 0];
            old = load(old_rows + row * width + column);
            sums[row] += old * load(step.lookup + column);
        }
    for (int row = 0; rest && row < Count; ++row) sums[row] += load_part(old_rows + row * width + whole, rest) * load(step.lookup + whole);
    Real retrieved[Count], update[Count];
#pragma GCC unroll 8
    for (int row = 0; row < Count; ++row) {
        retrieved[row] = decay * sum_of_lanes<Real>(sums[row]);
        update[row] = write * head.values[first + row] - erase * retrieved[row];
        sums[row] = Vector<Real>{};
    }
    if (head.retrieved) std::memcpy(head.retrieved + first, retrieved, sizeof(retrieved));
    const auto written = [&](Vector<Real> old, int row, Index column) __attribute__((always_inline)) {
        if (Kind == Decay::Head) old *= decay;
        if (Kind == Decay::Channel) old *= load(step.decays + column);
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

template <class Real, int Width, Decay Kind>
void step_all_rows(const HeadForward<Real>& head, const StepVectors<Real>& step) {
    constexpr int together = 4;
    Index row = 0;
    for (; row + together <= head.columns; row += together) step_rows<Real, together, Width, Kind>(head, step, row);
    for (; row < head.columns; ++row) step_rows<Real, 1, Width, Kind>(head, step, row);
}

// The workspace holds a key, a query, a lookup and the decays, each padded with zeros to whole vectors.
template <class Real, Decay Kind>
void forward_step(const HeadForward<Real>& head, Real* workspace) {
    const Index padded = round_up(head.key_dim, kLanes<Real>);
    const auto whole_vectors = [&](const Real* row, Index place) {
        if (padded == head.key_dim || !row) return row;
        copy_padded(workspace + place * padded, row, head.key_dim, padded);
        return static_cast<const Real*>(workspace + place * padded);
    };
    StepVectors<Real> step{head.weights, whole_vectors(head.keys, 0), whole_vectors(head.queries, 1), nullptr, nullptr};
    step.lookup = head.lookups == head.keys ? step.key : whole_vectors(head.lookups, 2);
    if (Kind == Decay::Channel) {
        step.decays = whole_vectors(head.decay, 3);
        for (Index column = 0; column < padded; ++column) workspace[2 * padded + column] = step.decays[column] * step.lookup[column];
        step.lookup = workspace + 2 * padded;
    }
    if (!step.weights) {
        std::memset(head.final_weights, 0, static_cast<std::size_t>(head.columns * head.key_dim) * sizeof(Real));
        step.weights = head.final_weights;
    }
    constexpr int held = 4 * kLanes<Real>;
    if (kRegisters == 32 && head.key_dim == held) return step_all_rows<Real, held, Kind>(head, step);
    step_all_rows<Real, 0, Kind>(head, step);
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
