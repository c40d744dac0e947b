// DPFP with ν = 1 of rows that fill whole vectors, as in features/dpfp.h and to the same bits, in registers:
//
//   r = min(relu([x, -x]), √max) ;   f[i] = r[i] r[i - 1] ;   dr[i] = df[i] r[i - 1] + df[i + 1] r[i + 1]
//
// The neighbours of a lane come from shuffles instead of memory that was written just before.
#pragma once

#include "features/unit_length.h"
#include "simd/small_product.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// Half: vectors of x.
template <class Real, int Half>
class ShortDpfp {
  public:
    ShortDpfp(bool by_sum, bool to_length, bool without_mean) : normalised(by_sum), of_unit_length(to_length), centred(without_mean) {}

    // False if the row needs the care that features/dpfp.h takes of very large and vanishing features.
    FASTWEIGHTS_INLINE bool forward(const Real* x, Real* y) const {
        Vector<Real> r[kVectors];
        Row row;
        Real total;
        if (!features(x, r, row, total)) return false;
        if (of_unit_length) UnitLength<Real, Row>(row, centred).normalise();
        for (int i = 0; i < kVectors; ++i) store(y + i * kLanes<Real>, normalised ? row.f[i] / total : row.f[i]);
        return true;
    }

    FASTWEIGHTS_INLINE bool backward(const Real* x, const Real* grad_y, Real* grad_x) const {
        Vector<Real> r[kVectors];
        Row row;
        Real total;
        if (!features(x, r, row, total)) return false;
        differentiate(row, total, grad_y);
        for (int i = 0; i < Half; ++i) {
            const Vector<Real> value = load(x + i * kLanes<Real>), none = {};
            const Vector<Real> up = value <= 0 ? none : value >= kTop ? none : gathered(row, r, i);
            const Vector<Real> down = -value <= 0 ? none : -value >= kTop ? none : gathered(row, r, Half + i);
            store(grad_x + i * kLanes<Real>, up - down);
        }
        return true;
    }

  private:
    static constexpr int kVectors = 2 * Half;
    static constexpr Real kTop = FloatLimits<Real>::root_of_max;
    using Row = RegisterRow<Real, kVectors>;

    const bool normalised, of_unit_length, centred;

    // The lanes from `Start` on of two vectors side by side.
    template <int Start, int... Lane>
    static FASTWEIGHTS_INLINE Vector<Real> window(Vector<Real> first, Vector<Real> second, Lanes<Lane...>) {
        return __builtin_shufflevector(first, second, (Lane + Start)...);
    }

    static FASTWEIGHTS_INLINE Vector<Real> before(const Vector<Real>* x, int i) {
        return window<kLanes<Real> - 1>(x[(i + kVectors - 1) % kVectors], x[i], LanesUpTo<kLanes<Real>>{});
    }

    static FASTWEIGHTS_INLINE Vector<Real> after(const Vector<Real>* x, int i) {
        return window<1>(x[i], x[(i + 1) % kVectors], LanesUpTo<kLanes<Real>>{});
    }

    static FASTWEIGHTS_INLINE Vector<Real> gathered(const Row& df, const Vector<Real>* r, int i) {
        Vector<Real> sum = {};
        sum += df.f[i] * before(r, i) + after(df.f, i) * after(r, i);
        return sum;
    }

    // r, f and Σ f; false if r must be shrunk or all features may vanish.
    FASTWEIGHTS_INLINE bool features(const Real* x, Vector<Real> (&r)[kVectors], Row& row, Real& total) const {
        const Vector<Real> none = {}, highest = broadcast(kTop);
        Vector<Real> most = {}, sums = {};
        for (int i = 0; i < kVectors; ++i) {
            const Vector<Real> value = load(x + i % Half * kLanes<Real>);
            // comparisons that let NaN through
            r[i] = i < Half ? (value < 0 ? none : value) : (value > 0 ? none : -value);
            r[i] = r[i] > kTop ? highest : r[i];
            most = r[i] > most ? r[i] : most;
        }
        for (int i = 0; i < kVectors; ++i) row.f[i] = r[i] * before(r, i), sums += row.f[i];
        if (!normalised) return true;
        total = sum_of_lanes<Real>(sums);
        const bool ordinary = total > FloatLimits<Real>::vanishing * Real(Row::size());
        return ordinary && !(largest_of_lanes<Real>(most) > FloatLimits<Real>::large);
    }

    // f becomes df
    FASTWEIGHTS_INLINE void differentiate(Row& row, Real total, const Real* grad_y) const {
        if (of_unit_length) return UnitLength<Real, Row>(row, centred).differentiate(grad_y);
        Vector<Real> sums = {};
        if (normalised)
            for (int i = 0; i < kVectors; ++i) sums += load(grad_y + i * kLanes<Real>) * (row.f[i] / total);
        const Real factor = normalised ? 1 / total : Real(1), mean = sum_of_lanes<Real>(sums);
        for (int i = 0; i < kVectors; ++i) row.f[i] = factor * (load(grad_y + i * kLanes<Real>) - mean);
    }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
