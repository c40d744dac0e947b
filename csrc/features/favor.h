// The map FAVOR+ of a Performer, row by row, with each row's scale apart from its features:
//
//   p = R x ;   f = [exp(p - l), exp(-p - l)]  with  l = max |p| ;   φ(x) = exp(s) f  with  s = l - |c x|² / 2
//
// R holds the random rows times c = d^-¼, so that the kernel is exp(k·q / √d). The scale is a choice of units: no gradient flows
// through l, and that of |c x|² flows through the features.
//   w = df f ;   dp = w₊ - w₋ ;   dx = Rᵀ dp - c² x Σ w
// Components of c x beyond 1e12 count as this large (docs/math.md#extremes).
#pragma once

#include <cmath>

#include "simd/exponential.h"
#include "simd/small_product.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real>
class Favor {
  public:
    static constexpr Index kTogether = 16;
    static constexpr bool kScaled = true;

    static Index workspace_size(Index input_dim, Index features) {
        return kTogether * (round_up(input_dim, kLanes<Real>) + round_up(features, kLanes<Real>));
    }

    // `rows` is R with rows of whole vectors, `columns` its transpose with rows of whole vectors: zeros behind what is real.
    Favor(Real* memory, Index input_dim, Index features, Rows<const Real> rows, Rows<const Real> columns, Real squared_factor)
        : inputs{memory, round_up(input_dim, kLanes<Real>)},
          projected{memory + kTogether * inputs.stride, round_up(features, kLanes<Real>)},
          dim(input_dim),
          half(features),
          by_row(rows),
          by_column(columns),
          factor(squared_factor),
          largest_input(Real(1e12) / std::sqrt(squared_factor)) {}

    // At most kTogether rows.
    void forward(Rows<const Real> x, Rows<Real> y, Real* scales, Index count) const {
        for (Index row = 0; row < count; ++row) scales[row] = -take(x.row(row), inputs.row(row)) / 2;
        const Term<Real> term[1] = {{{inputs.data, inputs.stride, 1}, by_column, dim}};
        multiply(projected, count, projected.stride / kLanes<Real>, term);
        for (Index row = 0; row < count; ++row) scales[row] += write_features(projected.row(row), y.row(row));
    }

    // `features` is what `forward` wrote.
    void backward(Rows<const Real> x, Rows<const Real> features, Rows<const Real> grad, Rows<Real> grad_x, Index count) const {
        Real totals[kTogether];
        for (Index row = 0; row < count; ++row)
            totals[row] = load_gradient(features.row(row), grad.row(row), projected.row(row));
        const Term<Real> term[1] = {{{projected.data, projected.stride, 1}, by_row, half}};
        multiply(inputs, count, inputs.stride / kLanes<Real>, term);
        for (Index row = 0; row < count; ++row)
            for (Index i = 0; i < dim; ++i) {
                const Real value = x.row(row)[i];
                const bool bounded = value < -largest_input || value > largest_input;
                grad_x.row(row)[i] = bounded ? Real(0) : inputs.row(row)[i] - factor * value * totals[row];
            }
    }

  private:
    const Rows<Real> inputs, projected;
    const Index dim, half;
    const Rows<const Real> by_row, by_column;
    const Real factor, largest_input;

    // Copies a row within its bounds; |c x|².
    Real take(const Real* x, Real* to) const {
        Real sum = 0;
        for (Index i = 0; i < dim; ++i) {
            const Real low = x[i] < -largest_input ? -largest_input : x[i];
            to[i] = low > largest_input ? largest_input : low;
            sum += to[i] * to[i];
        }
        return factor * sum;
    }

    Real write_features(Real* p, Real* y) const {
        for (Index i = half; i < projected.stride; ++i) p[i] = 0;
        Vector<Real> most = {};
        for (Index i = 0; i < half; i += kLanes<Real>) {
            const Vector<Real> value = load(p + i), size = value < 0 ? -value : value;
            // NaN is larger than everything: it must not get lost.
            most = size <= most ? most : size;
        }
        Real largest = most[0];
        for (int lane = 1; lane < kLanes<Real>; ++lane) largest = most[lane] <= largest ? largest : most[lane];
        // The positive ones first: what their last vector writes too much, the negative ones overwrite.
        for (Index i = 0; i < half; i += kLanes<Real>) store(y + i, exponential<Real>(load(p + i) - largest));
        for (Index i = 0; i < half; i += kLanes<Real>)
            store_part(y + half + i, exponential<Real>(-load(p + i) - largest), std::min<Index>(kLanes<Real>, half - i));
        return largest;
    }

    Real load_gradient(const Real* f, const Real* grad, Real* to) const {
        Vector<Real> sums = {};
        Real total = 0;
        Index i = 0;
        for (; i + kLanes<Real> <= half; i += kLanes<Real>) {
            const Vector<Real> up = load(f + i) * load(grad + i), down = load(f + half + i) * load(grad + half + i);
            store(to + i, up - down);
            sums += up + down;
        }
        for (; i < half; ++i) {
            const Real up = f[i] * grad[i], down = f[half + i] * grad[half + i];
            to[i] = up - down;
            total += up + down;
        }
        return total + sum_of_lanes<Real>(sums);
    }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
