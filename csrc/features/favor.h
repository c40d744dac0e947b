// The map FAVOR+ of a Performer, row by row, with each row's scale apart from its features:
//
//   p = R x ;   f = [exp(p - l), exp(-p - l)]  with  l near max |p| ;   φ(x) = exp(s) f  with  s = l - |c x|² / 2
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
            for (Index i = 0; i < dim; i += kLanes<Real>) {
                const Vector<Real> value = load_up_to(x.row(row) + i, dim - i), bounded = within_bounds(value);
                const Vector<Real> gradient = load(inputs.row(row) + i) - factor * totals[row] * value;
                // NaN is within all bounds.
                const auto outside = bounded < value || bounded > value;
                store_up_to(grad_x.row(row) + i, outside ? Vector<Real>{} : gradient, dim - i);
            }
    }

  private:
    const Rows<Real> inputs, projected;
    const Index dim, half;
    const Rows<const Real> by_row, by_column;
    const Real factor, largest_input;

    static FASTWEIGHTS_INLINE Vector<Real> load_up_to(const Real* from, Index left) {
        return left < kLanes<Real> ? load_part(from, left) : load(from);
    }

    static FASTWEIGHTS_INLINE void store_up_to(Real* to, Vector<Real> value, Index left) {
        left < kLanes<Real> ? store_part(to, value, left) : store(to, value);
    }

    FASTWEIGHTS_INLINE Vector<Real> within_bounds(Vector<Real> value) const {
        value = value < -largest_input ? broadcast(-largest_input) : value;
        return value > largest_input ? broadcast(largest_input) : value;
    }

    // Copies a row within its bounds; |c x|².
    Real take(const Real* x, Real* to) const {
        Vector<Real> sums = {};
        for (Index i = 0; i < dim; i += kLanes<Real>) {
            const Vector<Real> value = within_bounds(load_up_to(x + i, dim - i));
            store(to + i, value);
            sums += value * value;
        }
        return factor * sum_of_lanes<Real>(sums);
    }

    // Writes f and returns l.
    Real write_features(Real* p, Real* y) const {
        for (Index i = half; i < projected.stride; ++i) p[i] = 0;
        Vector<Real> most = {};
        for (Index i = 0; i < half; i += kLanes<Real>) {
            const Vector<Real> value = load(p + i), size = value < 0 ? -value : value;
            most = size > most ? size : most;
        }
        const Real largest = largest_of_lanes<Real>(most);
        // NaN among small ones passes through both.
        return largest <= Exponential<Real>::largest_of_pairs ? write_in_pairs(p, y, largest) : write_apart(p, y, largest);
    }

    // l is the nearest multiple of ln 2, which leaves exponents of two to be shifted.
    Real write_in_pairs(const Real* p, Real* y, Real largest) const {
        const auto shift = static_cast<typename Exponential<Real>::Integer>(largest * Exponential<Real>::per_ln2);
        for (Index i = 0; i < half; i += kLanes<Real>) {
            const auto [up, down] = exponential_pair<Real>(load(p + i), shift);
            store_up_to(y + i, up, half - i);
            store_up_to(y + half + i, down, half - i);
        }
        return shift * Exponential<Real>::high + shift * Exponential<Real>::low;
    }

    // l = max |p|.
    Real write_apart(const Real* p, Real* y, Real largest) const {
        for (Index i = 0; i < half; i += kLanes<Real>) {
            store_up_to(y + i, exponential<Real>(load(p + i) - largest), half - i);
            store_up_to(y + half + i, exponential<Real>(-load(p + i) - largest), half - i);
        }
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
