// The map DPFP, alone or normalised, row by row:
//
//   r = min(relu([x, -x]), √max) ;   f_s[i] = r[i] r[i - s]  (indices modulo 2d, s = 1 ... ν) ;   y = f  or  y = f / Σ f
// or as in features/unit_length.h
//
// The backward pass computes the features again: nothing but x is saved.
//   df = dy  or  df = (dy - Σ dy·y) / Σ f ;   dr[i] = Σ_s df_s[i] r[i - s] + df_s[i + s] r[i + s]
#pragma once

#include <initializer_list>

#include "features/dpfp_short.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// Several rows go through the same stages together: what one stage stores, the next one loads a few lanes further on, and a
// processor waits long for that where it was stored just now.
template <class Real>
class Dpfp {
  public:
    static constexpr Index kTogether = 8;

    static Index workspace_size(Index input_dim, Index nu) { return kTogether * (nu + 2) * row_size(input_dim, nu); }

    Dpfp(Real* memory, Index input_dim, Index shifts, Normalise normalise)
        : workspace(memory), half(input_dim), width(2 * input_dim), nu(shifts), normalised(normalise == Normalise::Sum),
          of_unit_length(normalise >= Normalise::Length), centred(normalise == Normalise::CentredLength) {}

    // At most kTogether rows.
    void forward(Rows<const Real> x, Rows<Real> y, Index count) const {
        switch (short_vectors()) {
            case 1: return forward_short<1>(x, y, count);
            case 2: return forward_short<2>(x, y, count);
            case 4: return forward_short<4>(x, y, count);
        }
        forward_long(x, y, count);
    }

    void backward(Rows<const Real> x, Rows<const Real> grad_y, Rows<Real> grad_x, Index count) const {
        switch (short_vectors()) {
            case 1: return backward_short<1>(x, grad_y, grad_x, count);
            case 2: return backward_short<2>(x, grad_y, grad_x, count);
            case 4: return backward_short<4>(x, grad_y, grad_x, count);
        }
        backward_long(x, grad_y, grad_x, count);
    }

  private:
    Real* const workspace;
    const Index half, width, nu;
    const bool normalised, of_unit_length, centred;

    // Whole vectors of x, if its features can stay in registers; 0 if they cannot, or if Σ f would be rounded otherwise there: the
    // sums below add products without rounding them first. Of one vector and its negative each lane adds at most one product.
    Index short_vectors() const {
        const bool fits = nu == 1 && half % kLanes<Real> == 0 && (half == kLanes<Real> || !normalised);
        return fits ? half / kLanes<Real> : 0;
    }

    template <int Half>
    void forward_short(Rows<const Real> x, Rows<Real> y, Index count) const {
        const ShortDpfp<Real, Half> map(normalised, of_unit_length, centred);
        for (Index row = 0; row < count; ++row)
            if (!map.forward(x.row(row), y.row(row))) forward_long({x.row(row), 0}, {y.row(row), 0}, 1);
    }

    template <int Half>
    void backward_short(Rows<const Real> x, Rows<const Real> grad_y, Rows<Real> grad_x, Index count) const {
        const ShortDpfp<Real, Half> map(normalised, of_unit_length, centred);
        for (Index row = 0; row < count; ++row)
            if (!map.backward(x.row(row), grad_y.row(row), grad_x.row(row)))
                backward_long({x.row(row), 0}, {grad_y.row(row), 0}, {grad_x.row(row), 0}, 1);
    }

    void forward_long(Rows<const Real> x, Rows<Real> y, Index count) const {
        for (Index row = 0; row < count; ++row) rectify(x.row(row), rectified_of(row));
        for (Index row = 0; row < count; ++row) write_features(rectified_of(row), y.row(row));
    }

    void backward_long(Rows<const Real> x, Rows<const Real> grad_y, Rows<Real> grad_x, Index count) const {
        Real shrunk[kTogether];
        for (Index row = 0; row < count; ++row) shrunk[row] = rectify(x.row(row), rectified_of(row));
        for (Index row = 0; row < count; ++row) load_gradients(rectified_of(row), grad_y.row(row), gradients_of(row));
        for (Index row = 0; row < count; ++row) gather_gradients(rectified_of(row), gradients_of(row));
        for (Index row = 0; row < count; ++row) write_gradient(x.row(row), gradients_of(row), shrunk[row], grad_x.row(row));
    }

    static Index row_size(Index input_dim, Index nu) { return round_up(2 * input_dim + 2 * nu + kLanes<Real>, kLanes<Real>); }

    // r of a row, with ν numbers of the other end before and after it
    FASTWEIGHTS_INLINE Real* rectified_of(Index row) const { return workspace + row * (nu + 2) * row_size(half, nu) + nu; }

    // df_s of a row, each with ν numbers of its start after it; then dr
    FASTWEIGHTS_INLINE Real* gradients_of(Index row) const { return workspace + (row * (nu + 2) + 1) * row_size(half, nu); }

    static FASTWEIGHTS_INLINE Vector<Real> feature(const Real* rectified, Index i, Index shift) {
        return load(rectified + i) * load(rectified + i - shift);
    }

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
    Real rectify(const Real* x, Real* rectified) const {
        constexpr Real top = FloatLimits<Real>::root_of_max;
        const Vector<Real> none = {}, highest = broadcast(top);
        Vector<Real> most = {};
        for (Index part : {0, 1})  // the second half overwrites what the last vector of the first one wrote too much
            for (Index i = 0; i < half; i += kLanes<Real>) {
                const Vector<Real> value = take(x + i, std::min<Index>(kLanes<Real>, half - i));
                // comparisons that let NaN through
                Vector<Real> r = part ? (value > 0 ? none : -value) : (value < 0 ? none : value);
                r = r > top ? highest : r;
                most = r > most ? r : most;
                store(rectified + part * half + i, r);
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
    Real measure(const Real* rectified) const {
        Vector<Real> sums = {};
        Real total = 0, largest = 0;
        for (Index shift = 1; shift <= nu; ++shift) {
            Index i = 0;
            for (; i + kLanes<Real> <= width; i += kLanes<Real>) sums += feature(rectified, i, shift);
            for (; i < width; ++i) total += rectified[i] * rectified[i - shift];
        }
        total += sum_of_lanes<Real>(sums);
        if (total > FloatLimits<Real>::vanishing * Real(width * nu)) return total;
        for (Index shift = 1; shift <= nu; ++shift)
            for (Index i = 0; i < width; ++i) {
                largest = std::max(largest, rectified[i] * rectified[i - shift]);
            }
        return largest <= FloatLimits<Real>::vanishing && total == total ? Real(__builtin_inf()) : total;
    }

    // Σ dy·y. The quotients first: where only one feature is active, its y is 1 to the last bit, and its gradient zero.
    Real average(const Real* rectified, const Real* grad_y, Real all) const {
        Vector<Real> sums = {};
        Real total = 0;
        for (Index shift = 1; shift <= nu; ++shift, grad_y += width) {
            Index i = 0;
            for (; i + kLanes<Real> <= width; i += kLanes<Real>) sums += load(grad_y + i) * (feature(rectified, i, shift) / all);
            for (; i < width; ++i) total += grad_y[i] * (rectified[i] * rectified[i - shift] / all);
        }
        return total + sum_of_lanes<Real>(sums);
    }

    void write_features(const Real* rectified, Real* y) const {
        const Real total = normalised ? measure(rectified) : Real(1);
        for (Index shift = 1; shift <= nu; ++shift, y += width)
            each(
                [&](Index i, Vector<Real>* value) {
                    *value = normalised ? feature(rectified, i, shift) / total : feature(rectified, i, shift);
                },
                y);
        if (!of_unit_length) return;
        FeatureRow<Real> row{y - nu * width, nu, width, width};
        UnitLength<Real>(row, centred).normalise();
    }

    void load_gradients(const Real* rectified, const Real* grad_y, Real* gradients) const {
        if (of_unit_length) return load_gradients_of_unit_length(rectified, grad_y, gradients);
        const Real total = normalised ? measure(rectified) : Real(1), factor = 1 / total;
        const Real mean = normalised ? average(rectified, grad_y, total) : Real(0);
        for (Index shift = 1; shift <= nu; ++shift, grad_y += width, gradients += row_size(half, nu)) {
            Index i = 0;
            for (; i + kLanes<Real> <= width; i += kLanes<Real>) store(gradients + i, factor * (load(grad_y + i) - mean));
            for (; i < width; ++i) gradients[i] = factor * (grad_y[i] - mean);
            for (i = 0; i < nu; ++i) gradients[width + i] = gradients[i];
            std::memset(gradients + width + nu, 0, kVectorBytes);
        }
    }

    void load_gradients_of_unit_length(const Real* rectified, const Real* grad_y, Real* gradients) const {
        const Index stride = row_size(half, nu);
        for (Index shift = 1; shift <= nu; ++shift)
            each([&](Index i, Vector<Real>* value) { *value = feature(rectified, i, shift); }, gradients + (shift - 1) * stride);
        FeatureRow<Real> row{gradients, nu, width, stride};
        UnitLength<Real>(row, centred).differentiate(grad_y);
        for (Index shift = 1; shift <= nu; ++shift, gradients += stride) {
            for (Index i = 0; i < nu; ++i) gradients[width + i] = gradients[i];
            std::memset(gradients + width + nu, 0, kVectorBytes);
        }
    }

    void gather_gradients(const Real* rectified, Real* gradients) const {
        Real* const grad_rectified = gradients + nu * row_size(half, nu);
        for (Index i = 0; i < width; i += kLanes<Real>) {
            Vector<Real> sum = {};
            for (Index shift = 1; shift <= nu; ++shift) {
                const Real* gradient = gradients + (shift - 1) * row_size(half, nu);
                sum += load(gradient + i) * load(rectified + i - shift) + load(gradient + i + shift) * load(rectified + i + shift);
            }
            store(grad_rectified + i, sum);
        }
    }

    void write_gradient(const Real* x, const Real* gradients, Real shrunk, Real* grad_x) const {
        const Real* const grad_rectified = gradients + nu * row_size(half, nu);
        constexpr Real top = FloatLimits<Real>::root_of_max;
        for (Index i = 0; i < half; i += kLanes<Real>) {
            const Index count = std::min<Index>(kLanes<Real>, half - i);
            const Vector<Real> value = take(x + i, count), none = {};
            const Vector<Real> up = value <= 0 ? none : value >= top ? none : load(grad_rectified + i);
            const Vector<Real> down = -value <= 0 ? none : -value >= top ? none : load(grad_rectified + half + i);
            put(grad_x + i, shrunk * (up - down), count);
        }
    }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
