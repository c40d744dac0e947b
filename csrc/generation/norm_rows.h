// Layer norm of few rows:  y = w ∘ (s - mean s) / √(var s + ε) + b  with  s = x + r.  Without w:  y = s.
#pragma once

#include <cmath>

#include "capi.h"
#include "simd/simd.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real>
void norm_row(const NormRows& call, const Real* x, const Real* added, Real* y) {
    constexpr int lanes = kLanes<Real>;
    const Index width = call.width, whole = width / lanes * lanes;
    const Real *const weight = static_cast<const Real*>(call.weight), *const bias = static_cast<const Real*>(call.bias);
    for (Index i = 0; i < width; ++i) y[i] = added ? x[i] + added[i] : x[i];
    if (!weight) return;
    Vector<Real> sums = {}, squares = {};
    Real sum = 0, square = 0;
    for (Index i = 0; i < whole; i += lanes) sums += load(y + i);
    for (Index i = whole; i < width; ++i) sum += y[i];
    const Real mean = (sum + sum_of_lanes<Real>(sums)) / Real(width);
    for (Index i = 0; i < whole; i += lanes) {
        const Vector<Real> centred = load(y + i) - mean;
        squares += centred * centred;
    }
    for (Index i = whole; i < width; ++i) square += (y[i] - mean) * (y[i] - mean);
    const Real scale = 1 / std::sqrt((square + sum_of_lanes<Real>(squares)) / Real(width) + Real(call.epsilon));
    for (Index i = 0; i < width; ++i) y[i] = (y[i] - mean) * scale * weight[i] + (bias ? bias[i] : Real(0));
}

// Rows are contiguous.
template <class Real>
void norm_rows(const NormRows& call) {
    for (Index row = 0; row < call.rows; ++row) {
        const Index at = row * call.width;
        const Real* const added = call.added ? static_cast<const Real*>(call.added) + at : nullptr;
        norm_row<Real>(call, static_cast<const Real*>(call.x) + at, added, static_cast<Real*>(call.y) + at);
    }
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
