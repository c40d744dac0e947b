// The map ELU+1, alone or normalised, row by row:
//
//   f = x + 1 if x > 0, else exp(x) ;   y = f  or  y = f / Σ f  or as in features/unit_length.h
//
// The backward pass computes the features again: nothing but x is saved.
//   df = dy  or  df = (dy - Σ dy·y) / Σ f ;   dx = df min(f, 1)
#pragma once

#include "features/unit_length.h"
#include "simd/exponential.h"
#include "simd/small_product.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real>
class EluPlusOne {
  public:
    static constexpr Index kTogether = 64;

    EluPlusOne(Index input_dim, Normalise normalise)
        : width(input_dim), normalised(normalise == Normalise::Sum), of_unit_length(normalise >= Normalise::Length),
          centred(normalise == Normalise::CentredLength) {}

    void forward(Rows<const Real> x, Rows<Real> y, Index count) const {
        switch (short_vectors()) {
            case 1: return forward_short<1>(x, y, count);
            case 2: return forward_short<2>(x, y, count);
            case 4: return forward_short<4>(x, y, count);
        }
        for (Index row = 0; row < count; ++row) forward(x.row(row), y.row(row));
    }

    void backward(Rows<const Real> x, Rows<const Real> grad_y, Rows<Real> grad_x, Index count) const {
        switch (short_vectors()) {
            case 1: return backward_short<1>(x, grad_y, grad_x, count);
            case 2: return backward_short<2>(x, grad_y, grad_x, count);
            case 4: return backward_short<4>(x, grad_y, grad_x, count);
        }
        for (Index row = 0; row < count; ++row) backward(x.row(row), grad_y.row(row), grad_x.row(row));
    }

  private:
    struct Scale {
        Real total, shrunk;  // Σ f after a multiplication by `shrunk`
    };

    const Index width;
    const bool normalised, of_unit_length, centred;

    // Whole vectors of a row, if it can stay in registers; 0 if it cannot.
    Index short_vectors() const { return width % kLanes<Real> ? 0 : width / kLanes<Real>; }

    // Rows at once: a row's exponentials wait for each other, those of several rows do not.
    template <int Vectors>
    static constexpr int kRowsAtOnce = kRegisters / (8 * Vectors) > 1 ? kRegisters / (8 * Vectors) : 1;

    template <int Vectors, int Count>
    FASTWEIGHTS_INLINE void load_short(Rows<const Real> x, Index first, RegisterRow<Real, Vectors> (&rows)[Count]) const {
#pragma GCC unroll 8
        for (int row = 0; row < Count; ++row)
            for (int i = 0; i < Vectors; ++i) rows[row].f[i] = feature(load(x.row(first + row) + i * kLanes<Real>));
    }

    template <int Vectors>
    static FASTWEIGHTS_INLINE Real total_of(const RegisterRow<Real, Vectors>& row) {
        Vector<Real> sums = {};
        for (int i = 0; i < Vectors; ++i) sums += row.f[i];
        return sum_of_lanes<Real>(sums);
    }

    // Whether a sum of features is one to divide by; `measure` looks into the others.
    FASTWEIGHTS_INLINE bool is_ordinary(Real total) const {
        return total > FloatLimits<Real>::vanishing * Real(width) && total < Real(__builtin_inf());
    }

    template <int Vectors>
    void forward_short(Rows<const Real> x, Rows<Real> y, Index count) const {
        constexpr int together = kRowsAtOnce<Vectors>;
        Index first = 0;
        for (; first + together <= count; first += together) {
            RegisterRow<Real, Vectors> rows[together];
            load_short(x, first, rows);
#pragma GCC unroll 8
            for (int row = 0; row < together; ++row) {
                const Real total = normalised ? total_of(rows[row]) : Real(1);
                if (!is_ordinary(total)) {
                    forward(x.row(first + row), y.row(first + row));
                    continue;
                }
                if (of_unit_length) UnitLength<Real, RegisterRow<Real, Vectors>>(rows[row], centred).normalise();
                for (int i = 0; i < Vectors; ++i) store(y.row(first + row) + i * kLanes<Real>, rows[row].f[i] / total);
            }
        }
        for (; first < count; ++first) forward(x.row(first), y.row(first));
    }

    template <int Vectors>
    void backward_short(Rows<const Real> x, Rows<const Real> grad_y, Rows<Real> grad_x, Index count) const {
        constexpr int together = kRowsAtOnce<Vectors>;
        Index first = 0;
        for (; first + together <= count; first += together) {
            RegisterRow<Real, Vectors> rows[together];
            load_short(x, first, rows);
#pragma GCC unroll 8
            for (int row = 0; row < together; ++row) {
                const Real total = normalised ? total_of(rows[row]) : Real(1);
                if (is_ordinary(total))
                    differentiate_short(rows[row], total, grad_y.row(first + row), grad_x.row(first + row));
                else
                    backward(x.row(first + row), grad_y.row(first + row), grad_x.row(first + row));
            }
        }
        for (; first < count; ++first) backward(x.row(first), grad_y.row(first), grad_x.row(first));
    }

    // dx = df min(f, 1) of a row whose features have this sum, or 1 if they are not divided by it.
    template <int Vectors>
    FASTWEIGHTS_INLINE void differentiate_short(
        const RegisterRow<Real, Vectors>& row, Real total, const Real* grad_y, Real* grad_x) const {
        RegisterRow<Real, Vectors> grad = row;
        if (of_unit_length) {
            UnitLength<Real, RegisterRow<Real, Vectors>>(grad, centred).differentiate(grad_y);
        } else {
            Vector<Real> sums = {};
            if (normalised)
                for (int i = 0; i < Vectors; ++i) sums += load(grad_y + i * kLanes<Real>) * (row.f[i] / total);
            const Real factor = 1 / total, mean = sum_of_lanes<Real>(sums);
            for (int i = 0; i < Vectors; ++i) grad.f[i] = factor * (load(grad_y + i * kLanes<Real>) - mean);
        }
        for (int i = 0; i < Vectors; ++i) {
            const Vector<Real> slope = row.f[i] > 1 ? broadcast(Real(1)) : row.f[i];
            store(grad_x + i * kLanes<Real>, grad.f[i] * slope);
        }
    }

    // The features where the result will be.
    FeatureRow<Real> features(const Real* x, Real* to) const {
        each([&](Index i, Index count) { put(to, i, count, feature(take(x, i, count))); });
        return {to, 1, width, width};
    }

    void forward(const Real* x, Real* y) const {
        if (of_unit_length) {
            FeatureRow<Real> row = features(x, y);
            return UnitLength<Real>(row, centred).normalise();
        }
        const Scale scale = normalised ? measure(x) : Scale{1, 1};
        each([&](Index i, Index count) { put(y, i, count, feature(take(x, i, count)) * scale.shrunk / scale.total); });
    }

    void backward(const Real* x, const Real* grad_y, Real* grad_x) const {
        if (of_unit_length) {
            FeatureRow<Real> row = features(x, grad_x);
            UnitLength<Real>(row, centred).differentiate(grad_y);
            each([&](Index i, Index count) {
                const Vector<Real> f = feature(take(x, i, count)), slope = f > 1 ? broadcast(Real(1)) : f;
                put(grad_x, i, count, take(grad_x, i, count) * slope);
            });
            return;
        }
        const Scale scale = normalised ? measure(x) : Scale{1, 1};
        const Real factor = scale.shrunk / scale.total;
        Vector<Real> sums = {};
        if (normalised)
            each([&](Index i, Index count) {
                sums += take(grad_y, i, count) * (feature(take(x, i, count)) * scale.shrunk / scale.total);
            });
        const Real mean = sum_of_lanes<Real>(sums);
        each([&](Index i, Index count) {
            const Vector<Real> f = feature(take(x, i, count)), slope = f > 1 ? broadcast(Real(1)) : f;
            put(grad_x, i, count, factor * (take(grad_y, i, count) - mean) * slope);
        });
    }

    static FASTWEIGHTS_INLINE Vector<Real> feature(Vector<Real> x) {
        const Vector<Real> negative = x > 0 ? Vector<Real>{} : x;
        return (x > 0 ? x : Vector<Real>{}) + exponential<Real>(negative);
    }

    static FASTWEIGHTS_INLINE Vector<Real> take(const Real* from, Index i, Index count) {
        return count == kLanes<Real> ? load(from + i) : load_part(from + i, count);
    }

    static FASTWEIGHTS_INLINE void put(Real* to, Index i, Index count, Vector<Real> value) {
        count == kLanes<Real> ? store(to + i, value) : store_part(to + i, value, count);
    }

    // Calls visit(i, lanes) for all whole vectors of a row and then, with fewer lanes, for the rest of it.
    template <class Visit>
    FASTWEIGHTS_INLINE void each(Visit visit) const {
        Index i = 0;
        for (; i + kLanes<Real> <= width; i += kLanes<Real>) visit(i, Index(kLanes<Real>));
        if (i < width) visit(i, width - i);
    }

    Real sum(const Real* x, Real shrunk) const {
        Vector<Real> sums = {};
        Real rest = 0;
        each([&](Index i, Index count) {
            const Vector<Real> f = feature(take(x, i, count)) * shrunk;
            if (count == kLanes<Real>)
                sums += f;
            else
                for (Index lane = 0; lane < count; ++lane) rest += f[lane];
        });
        return rest + sum_of_lanes<Real>(sums);
    }

    // The smallest feature that is not zero is far from vanishing in sums, but all of them may vanish, and finite ones overflow.
    Scale measure(const Real* x) const {
        const Real total = sum(x, 1);
        if (total <= FloatLimits<Real>::vanishing * Real(width) && largest(x) <= FloatLimits<Real>::vanishing)
            return {Real(__builtin_inf()), 1};
        if (total != Real(__builtin_inf())) return {total, 1};
        if (largest(x) == total) return {Real(__builtin_nan("")), 1};
        return {sum(x, FloatLimits<Real>::shrink), FloatLimits<Real>::shrink};
    }

    Real largest(const Real* x) const {
        Real most = 0;
        each([&](Index i, Index count) {
            const Vector<Real> f = feature(take(x, i, count));
            for (Index lane = 0; lane < count; ++lane) most = f[lane] > most ? f[lane] : most;
        });
        return most;
    }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
