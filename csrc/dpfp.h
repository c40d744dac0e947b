// The map DPFP, alone or with sum normalisation, row by row:
//
//   r = min(relu([x, -x]), √max) ;   f_s[i] = r[i] r[i - s]  (indices modulo 2d, s = 1 ... ν) ;   y = f  or  y = f / Σ f
//
// The backward pass computes the features again: nothing but x is saved.
//   df = dy  or  df = (dy - Σ dy·y) / Σ f ;   dr[i] = Σ_s df_s[i] r[i - s] + df_s[i + s] r[i + s]
#pragma once

#include <initializer_list>

#include "scan_forward.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real>
struct FloatLimits;

// Rectified inputs are bounded by √max, so that no product overflows. Where one is above `large`, all are multiplied by a power
// of two (exact), so that no sum overflows. Largest features up to `vanishing` = tiny^0.75 count as zero.
template <>
struct FloatLimits<float> {
    static constexpr float root_of_max = 0x1.fffffep+63f, large = 0x1p+31f, shrink = 0x1p-33f, vanishing = 0x1.6a09e6p-95f;
};

template <>
struct FloatLimits<double> {
    static constexpr double root_of_max = 0x1.fffffffffffffp+511, large = 0x1p+255, shrink = 0x1p-257, vanishing = 0x1.6a09e667f3bcdp-767;
};

template <class Real>
class DpfpRow {
  public:
    static Index workspace_size(Index input_dim, Index nu) { return (nu + 2) * row_size(input_dim, nu); }

    DpfpRow(Real* workspace, Index input_dim, Index shifts, bool normalise)
        : half(input_dim), width(2 * input_dim), nu(shifts), normalised(normalise), rectified(workspace + nu),
          grad_features(workspace + row_size(input_dim, nu)) {}

    void forward(const Real* x, Real* y) {
        rectify(x);
        const Real total = normalised ? measure() : Real(1);
        for (Index shift = 1; shift <= nu; ++shift, y += width)
            each([&](Index i, Vector<Real>* value) { *value = normalised ? feature(i, shift) / total : feature(i, shift); }, y);
    }

    void backward(const Real* x, const Real* grad_y, Real* grad_x) {
        const Real shrunk = rectify(x);
        const Real total = normalised ? measure() : Real(1);
        const Real mean = normalised ? average(grad_y, total) : Real(0);
        for (Index shift = 1; shift <= nu; ++shift) load_gradient(grad_y + (shift - 1) * width, shift, 1 / total, mean);
        for (Index i = 0; i < width; i += kLanes<Real>) {
            Vector<Real> sum = {};
            for (Index shift = 1; shift <= nu; ++shift) {
                const Real* gradient = grad_features + (shift - 1) * row_size(half, nu);
                sum += load(gradient + i) * load(rectified + i - shift) + load(gradient + i + shift) * load(rectified + i + shift);
            }
            store(grad_features + nu * row_size(half, nu) + i, sum);
        }
        const Real* grad_rectified = grad_features + nu * row_size(half, nu);
        constexpr Real top = FloatLimits<Real>::root_of_max;
        for (Index i = 0; i < half; i += kLanes<Real>) {
            const Index count = smaller(kLanes<Real>, half - i);
            const Vector<Real> value = take(x + i, count), none = {};
            const Vector<Real> up = value <= 0 ? none : value >= top ? none : load(grad_rectified + i);
            const Vector<Real> down = -value <= 0 ? none : -value >= top ? none : load(grad_rectified + half + i);
            put(grad_x + i, shrunk * (up - down), count);
        }
    }

  private:
    const Index half, width, nu;
    const bool normalised;
    Real* const rectified;      // r, with ν numbers of the other end before and after it
    Real* const grad_features;  // df_s, each with ν numbers of its start after it; then dr

    static Index row_size(Index input_dim, Index nu) { return round_up(2 * input_dim + 2 * nu + kLanes<Real>, kLanes<Real>); }

    FASTWEIGHTS_INLINE Vector<Real> feature(Index i, Index shift) const { return load(rectified + i) * load(rectified + i - shift); }

    // Calls make(i, &value) for whole vectors of one shift and stores them; the last one in part.
    template <class Make>
    FASTWEIGHTS_INLINE void each(Make make, Real* to) const {
        Vector<Real> value;
        Index i = 0;
        for (; i + kLanes<Real> <= width; i += kLanes<Real>) make(i, &value), store(to + i, value);
        if (i < width) make(i, &value), store_part(to + i, value, width - i);
    }

    static FASTWEIGHTS_INLINE Vector<Real> take(const Real* from, Index count) {
        return count == kLanes<Real> ? load(from) : load_part(from, count);
    }

    static FASTWEIGHTS_INLINE void put(Real* to, Vector<Real> value, Index count) {
        count == kLanes<Real> ? store(to, value) : store_part(to, value, count);
    }

    // Returns the power of two that r was multiplied by. No branches: signs are nothing to be foreseen.
    Real rectify(const Real* x) {
        constexpr Real top = FloatLimits<Real>::root_of_max;
        const Vector<Real> none = {}, highest = broadcast(top);
        Vector<Real> most = {};
        for (Index part : {0, 1})  // the second half overwrites what the last vector of the first one wrote too much
            for (Index i = 0; i < half; i += kLanes<Real>) {
                const Vector<Real> value = take(x + i, smaller(kLanes<Real>, half - i));
                // comparisons that let NaN through
                Vector<Real> one = part ? (value > 0 ? none : -value) : (value < 0 ? none : value);
                one = one > top ? highest : one;
                most = one > most ? one : most;
                store(rectified + part * half + i, one);
            }
        const bool shrinks = normalised && largest_of_lanes<Real>(most) > FloatLimits<Real>::large;
        const Real shrunk = shrinks ? FloatLimits<Real>::shrink : Real(1);
        if (shrunk != 1)
            for (Index i = 0; i < width; ++i) rectified[i] *= shrunk;
        for (Index i = 0; i < nu; ++i) rectified[i - nu] = rectified[width + i - nu], rectified[width + i] = rectified[i];
        std::memset(rectified + width + nu, 0, kVectorBytes);
        return shrunk;
    }

    // Σ f, or infinity where all features vanish
    Real measure() const {
        Vector<Real> sums = {};
        Real total = 0, largest = 0;
        for (Index shift = 1; shift <= nu; ++shift) {
            Index i = 0;
            for (; i + kLanes<Real> <= width; i += kLanes<Real>) sums += feature(i, shift);
            for (; i < width; ++i) total += rectified[i] * rectified[i - shift];
        }
        total += sum_of_lanes<Real>(sums);
        if (total > FloatLimits<Real>::vanishing * Real(width * nu)) return total;
        for (Index shift = 1; shift <= nu; ++shift)
            for (Index i = 0; i < width; ++i) {
                const Real one = rectified[i] * rectified[i - shift];
                largest = one > largest ? one : largest;
            }
        return largest <= FloatLimits<Real>::vanishing && total == total ? Real(__builtin_inf()) : total;
    }

    // Σ dy·y. The quotients first: where only one feature is active, its y is 1 to the last bit, and its gradient zero.
    Real average(const Real* grad_y, Real all) const {
        Vector<Real> sums = {};
        Real total = 0;
        for (Index shift = 1; shift <= nu; ++shift, grad_y += width) {
            Index i = 0;
            for (; i + kLanes<Real> <= width; i += kLanes<Real>) sums += load(grad_y + i) * (feature(i, shift) / all);
            for (; i < width; ++i) total += grad_y[i] * (rectified[i] * rectified[i - shift] / all);
        }
        return total + sum_of_lanes<Real>(sums);
    }

    void load_gradient(const Real* grad_y, Index shift, Real factor, Real mean) {
        Real* const to = grad_features + (shift - 1) * row_size(half, nu);
        Index i = 0;
        for (; i + kLanes<Real> <= width; i += kLanes<Real>) store(to + i, factor * (load(grad_y + i) - mean));
        for (; i < width; ++i) to[i] = factor * (grad_y[i] - mean);
        for (i = 0; i < nu; ++i) to[width + i] = to[i];
        std::memset(to + width + nu, 0, kVectorBytes);
    }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
