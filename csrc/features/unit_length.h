// Features of length 1, alone (L2) or without their mean (centred L2), where they are:
//
//   y = c / |c|  with  c = f  or  c = f - mean f ;   df = (dy - y (dy·y)) / |c|, without its mean if centred
//
// Squares neither overflow nor vanish: features far from one are first multiplied by a power of two, which is exact.
#pragma once

#include <cmath>

#include "features/float_limits.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// What is done to the features of a row, beside mapping. The numbers are those of kernels/features.py.
enum class Normalise : Index { None, Sum, Length, CentredLength };

// The features of one row in memory: `parts` pieces of `width` numbers, `stride` apart.
template <class Real>
struct FeatureRow {
    Real* data;
    Index parts, width, stride;

    Index size() const { return parts * width; }

    // Calls see(f, where it is, its place among all features, lanes) for whole vectors, then for the rest of each part.
    template <class See>
    FASTWEIGHTS_INLINE void visit(See see) const {
        for (Index part = 0; part < parts; ++part) {
            const Index at = part * stride, place = part * width;
            Index i = 0;
            for (; i + kLanes<Real> <= width; i += kLanes<Real>) see(load(data + at + i), at + i, place + i, Index(kLanes<Real>));
            if (i < width) see(load_part(data + at + i, width - i), at + i, place + i, width - i);
        }
    }

    FASTWEIGHTS_INLINE void put(Index at, Vector<Real> value, Index count) const {
        count == kLanes<Real> ? store(data + at, value) : store_part(data + at, value, count);
    }
};

// The features of one row of whole vectors in registers.
template <class Real, int Vectors>
struct RegisterRow {
    Vector<Real> f[Vectors];

    static constexpr Index size() { return Vectors * kLanes<Real>; }

    template <class See>
    FASTWEIGHTS_INLINE void visit(See see) const {
        for (int i = 0; i < Vectors; ++i) see(f[i], i, i * kLanes<Real>, Index(kLanes<Real>));
    }

    FASTWEIGHTS_INLINE void put(Index at, Vector<Real> value, Index) { f[at] = value; }
};

template <class Real, class Row = FeatureRow<Real>>
class UnitLength {
  public:
    FASTWEIGHTS_INLINE UnitLength(Row& features, bool centre) : row(features), centred(centre) { measure(); }

    // f becomes y
    FASTWEIGHTS_INLINE void normalise() const {
        each([&](Vector<Real> f, Index, Index) { return unit(f); });
    }

    // f becomes df; the gradient dy is contiguous
    FASTWEIGHTS_INLINE void differentiate(const Real* grad) const {
        Vector<Real> along = {}, all = {};
        Real along_rest = 0, all_rest = 0;
        row.visit([&](Vector<Real> f, Index, Index place, Index count) {
            const Vector<Real> g = count == kLanes<Real> ? load(grad + place) : load_part(grad + place, count), y = unit(f);
            if (count == kLanes<Real>) {
                along += g * y, all += g;
            } else {
                for (Index lane = 0; lane < count; ++lane) along_rest += g[lane] * y[lane], all_rest += g[lane];
            }
        });
        const Real dot = along_rest + sum_of_lanes<Real>(along), factor = shrunk / length;
        const Real mean_of_grad = centred ? (all_rest + sum_of_lanes<Real>(all)) / Real(row.size()) : Real(0);
        each([&](Vector<Real> f, Index place, Index count) {
            const Vector<Real> g = count == kLanes<Real> ? load(grad + place) : load_part(grad + place, count);
            return factor * (g - mean_of_grad - dot * unit(f));
        });
    }

  private:
    Row& row;
    const bool centred;
    Real shrunk = 1, mean = 0, rest_of_mean = 0, length = 1;

    FASTWEIGHTS_INLINE Vector<Real> centre(Vector<Real> f) const { return (f * shrunk - mean) - rest_of_mean; }
    FASTWEIGHTS_INLINE Vector<Real> unit(Vector<Real> f) const { return centre(f) / length; }

    template <class Change>
    FASTWEIGHTS_INLINE void each(Change change) const {
        row.visit([&](Vector<Real> f, Index at, Index place, Index count) {
            row.put(at, change(f, place, count), count);
        });
    }

    template <class Value>
    FASTWEIGHTS_INLINE Real sum(Value value) const {
        Vector<Real> sums = {};
        Real rest = 0;
        row.visit([&](Vector<Real> f, Index, Index, Index count) {
            const Vector<Real> found = value(f);
            if (count == kLanes<Real>)
                sums += found;
            else
                for (Index lane = 0; lane < count; ++lane) rest += found[lane];
        });
        return rest + sum_of_lanes<Real>(sums);
    }

    // Features are not negative; lanes beyond the end are zero.
    FASTWEIGHTS_INLINE Real largest() const {
        Vector<Real> most = {};
        row.visit([&](Vector<Real> f, Index, Index, Index) { most = f > most ? f : most; });
        return largest_of_lanes<Real>(most);
    }

    FASTWEIGHTS_INLINE void measure() {
        using Limits = FloatLimits<Real>;
        const Real most = largest(), numbers = Real(row.size());
        if (most > Limits::too_large_to_square) shrunk = Limits::before_squaring_large;
        if (most < Limits::too_small_to_square) shrunk = Limits::before_squaring_small;
        if (centred) {
            mean = sum([&](Vector<Real> f) { return f * shrunk; }) / numbers;
            // Twice: what rounding left of the mean could be as large as the differences of features that are nearly equal.
            rest_of_mean = sum([&](Vector<Real> f) { return f * shrunk - mean; }) / numbers;
        }
        const Real squares = sum([&](Vector<Real> f) { return centre(f) * centre(f); });
        length = std::sqrt(squares);
        // Nothing to divide by: zeros. Infinity and NaN make all of them NaN.
        if (length == 0 || (most <= Limits::vanishing && squares == squares)) length = Real(__builtin_inf());
        if (most == Real(__builtin_inf())) length = Real(__builtin_nan(""));
    }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
