// Bounds within which products and sums of features neither overflow nor vanish.
#pragma once

#include "simd/simd.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real>
struct FloatLimits;

// Rectified inputs are bounded by √max, so that no product overflows. Where one is above `large`, all are multiplied by a power
// of two (exact), so that no sum overflows. Largest features up to `vanishing` = tiny^0.75 count as zero.
template <>
struct FloatLimits<float> {
    static constexpr float root_of_max = 0x1.fffffep+63f, large = 0x1p+31f, shrink = 0x1p-33f, vanishing = 0x1.6a09e6p-95f;
    static constexpr float too_large_to_square = 0x1p+50f, before_squaring_large = 0x1p-89f;
    static constexpr float too_small_to_square = 0x1p-50f, before_squaring_small = 0x1p+70f;
};

template <>
struct FloatLimits<double> {
    static constexpr double root_of_max = 0x1.fffffffffffffp+511, large = 0x1p+255, shrink = 0x1p-257, vanishing = 0x1.6a09e667f3bcdp-767;
    static constexpr double too_large_to_square = 0x1p+400, before_squaring_large = 0x1p-700;
    static constexpr double too_small_to_square = 0x1p-400, before_squaring_small = 0x1p+560;
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
