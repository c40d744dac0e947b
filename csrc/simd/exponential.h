// The exponential function of vectors, for arguments that are not positive, and for x and -x at once.
#pragma once

#include <utility>

#include "simd/simd.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// exp(x) = 2ⁿ exp(r) with n = x / ln 2 rounded and |r| ≤ ln 2 / 2, where the Taylor series of `terms` terms is exact to rounding.
// ln 2 = high + low, where n high is exact. Below `least` everything rounds to zero. Up to `largest_of_pairs`, exp(±2x) is a normal
// number.
template <class Real>
struct Exponential;

template <>
struct Exponential<float> {
    using Integer = std::int32_t;
    static constexpr float least = -105.0f, per_ln2 = 0x1.715476p+0f, high = 0x1.62e4p-1f, low = 0x1.7f7d1cp-20f, rounder = 0x1.8p+23f;
    static constexpr float largest_of_pairs = 40.0f;
    static constexpr int terms = 8, fraction_bits = 23, bias = 127;
};

template <>
struct Exponential<double> {
    using Integer = std::int64_t;
    static constexpr double least = -746.0, per_ln2 = 0x1.71547652b82fep+0, high = 0x1.62e42fefap-1, low = 0x1.cf79abc9e3b39p-40,
                            rounder = 0x1.8p+52;
    static constexpr double largest_of_pairs = 340.0;
    static constexpr int terms = 14, fraction_bits = 52, bias = 1023;
};

// For x ≤ 0; NaN passes through.
template <class Real>
FASTWEIGHTS_INLINE Vector<Real> exponential(Vector<Real> x) {
    using Constants = Exponential<Real>;
    typedef typename Constants::Integer Integers __attribute__((vector_size(kVectorBytes)));
    x = x < Constants::least ? broadcast(Constants::least) : x;
    const Vector<Real> n = (x * Constants::per_ln2 + Constants::rounder) - Constants::rounder;
    const Vector<Real> r = (x - n * Constants::high) - n * Constants::low;
    Vector<Real> sum = broadcast(Real(1));
    for (int term = Constants::terms - 1; term > 0; --term) sum = 1 + sum * (r * (1 / Real(term)));
    // 2ⁿ in two steps: for the smallest results it is below what a number can hold.
    const Integers whole = __builtin_convertvector(n, Integers), half = whole >> 1;
    const Integers first = (half + Constants::bias) << Constants::fraction_bits;
    const Integers second = (whole - half + Constants::bias) << Constants::fraction_bits;
    return sum * (Vector<Real>)first * (Vector<Real>)second;  // casts of vectors keep the bits
}

template <class Real>
constexpr Real inverse_factorial(int number) {
    return number < 2 ? Real(1) : inverse_factorial<Real>(number - 1) / Real(number);
}

// exp(x) / 2^shift and exp(-x) / 2^shift for |x| ≤ `largest_of_pairs` and a shift of at most |x| / ln 2: one series for both, since
// exp(±r) = Σ r^2i / (2i)!  ±  r Σ r^2i / (2i + 1)! . NaN passes through.
template <class Real>
FASTWEIGHTS_INLINE std::pair<Vector<Real>, Vector<Real>> exponential_pair(Vector<Real> x, typename Exponential<Real>::Integer shift) {
    using Constants = Exponential<Real>;
    typedef typename Constants::Integer Integers __attribute__((vector_size(kVectorBytes)));
    const Vector<Real> n = (x * Constants::per_ln2 + Constants::rounder) - Constants::rounder;
    const Vector<Real> r = (x - n * Constants::high) - n * Constants::low, square = r * r;
    Vector<Real> even = broadcast(inverse_factorial<Real>(Constants::terms - 2));
    Vector<Real> odd = broadcast(inverse_factorial<Real>(Constants::terms - 1));
#pragma GCC unroll 8
    for (int term = Constants::terms - 4; term >= 0; term -= 2) {
        even = even * square + inverse_factorial<Real>(term);
        odd = odd * square + inverse_factorial<Real>(term + 1);
    }
    odd *= r;
    const Integers whole = __builtin_convertvector(n, Integers);
    const Integers up = (Constants::bias - shift + whole) << Constants::fraction_bits;
    const Integers down = (Constants::bias - shift - whole) << Constants::fraction_bits;
    return {(even + odd) * (Vector<Real>)up, (even - odd) * (Vector<Real>)down};
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
