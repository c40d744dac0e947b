// A linear layer of few rows:  y = x Wᵀ + b, or relu(x Wᵀ + b).
//
// Every weight is read once for at most a few multiplications, so the memory decides. Each output is one dot product, always in the
// same order: it depends neither on the threads nor on the other rows.
#pragma once

#include "capi.h"
#include "simd/simd.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// W x of Count rows of W, the rows `step` apart.
template <class Real, int Count>
FASTWEIGHTS_INLINE void dot_products(const Real* weights, Index step, const Real* x, Index inner, Real (&dots)[Count]) {
    constexpr int lanes = kLanes<Real>;
    const Index whole = inner / lanes * lanes, rest = inner - whole;
    Vector<Real> sums[Count] = {};
    for (Index i = 0; i < whole; i += lanes) {
        const Vector<Real> part = load(x + i);
#pragma GCC unroll 8
        for (int row = 0; row < Count; ++row) sums[row] += load(weights + row * step + i) * part;
    }
    if (rest) {
        const Vector<Real> part = load_part(x + whole, rest);
        for (int row = 0; row < Count; ++row) sums[row] += load_part(weights + row * step + whole, rest) * part;
    }
#pragma GCC unroll 8
    for (int row = 0; row < Count; ++row) dots[row] = sum_of_lanes<Real>(sums[row]);
}

template <class Real, int Count>
FASTWEIGHTS_INLINE void linear_outputs(const LinearRows& call, Index output) {
    const Real* const weights = static_cast<const Real*>(call.weights) + output * call.weight_row;
    const Real* const bias = static_cast<const Real*>(call.bias);
    for (Index row = 0; row < call.rows; ++row) {
        Real dots[Count];
        dot_products<Real, Count>(weights, call.weight_row, static_cast<const Real*>(call.x) + row * call.x_row, call.inner, dots);
        Real* const y = static_cast<Real*>(call.y) + row * call.y_row + output;
        for (int i = 0; i < Count; ++i) {
            const Real value = bias ? dots[i] + bias[output + i] : dots[i];
            y[i] = call.relu && value < 0 ? Real(0) : value;
        }
    }
}

// Outputs [first, first + count).
template <class Real>
void linear_rows(const LinearRows& call, Index first, Index count) {
    constexpr int together = kRegisters / 4;
    Index output = first;
    const Index end = first + count;
    for (; output + together <= end; output += together) linear_outputs<Real, together>(call, output);
    for (; output < end; ++output) linear_outputs<Real, 1>(call, output);
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
