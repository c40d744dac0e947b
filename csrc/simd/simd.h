// Vectors of the compiler (GCC, Clang), as wide as the instruction set this file is compiled for.
//
// Every kernel source is compiled once per instruction set, each time with another FASTWEIGHTS_LEVEL (a namespace of its own,
// so that the linker never takes a function of one set for another) and another FASTWEIGHTS_VECTOR_BYTES.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#define FASTWEIGHTS_INLINE inline __attribute__((always_inline))

namespace fastweights::FASTWEIGHTS_LEVEL {

using Index = std::int64_t;

constexpr int kVectorBytes = FASTWEIGHTS_VECTOR_BYTES;

#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kRegisters = 32;
#else
constexpr int kRegisters = 16;
#endif

template <class Real>
struct VectorOf {
    typedef Real Register __attribute__((vector_size(kVectorBytes)));
    typedef Real Unaligned __attribute__((vector_size(kVectorBytes), aligned(alignof(Real)), may_alias));
};

template <class Real>
using Vector = typename VectorOf<Real>::Register;

template <class Real>
constexpr int kLanes = kVectorBytes / static_cast<int>(sizeof(Real));

template <class Real>
FASTWEIGHTS_INLINE Vector<Real> load(const Real* from) {
    return *reinterpret_cast<const typename VectorOf<Real>::Unaligned*>(from);
}

template <class Real>
FASTWEIGHTS_INLINE void store(Real* to, Vector<Real> value) {
    *reinterpret_cast<typename VectorOf<Real>::Unaligned*>(to) = value;
}

// x - 0 is x for every x, minus zero included, so the compiler makes this a plain broadcast.
template <class Real>
FASTWEIGHTS_INLINE Vector<Real> broadcast(Real value) {
    return value - Vector<Real>{};
}

template <class Real>
FASTWEIGHTS_INLINE Vector<Real> load_part(const Real* from, Index count) {
    Real lanes[kLanes<Real>] = {};
    std::memcpy(lanes, from, static_cast<std::size_t>(count) * sizeof(Real));
    return load(lanes);
}

template <class Real>
FASTWEIGHTS_INLINE void store_part(Real* to, Vector<Real> value, Index count) {
    Real lanes[kLanes<Real>];
    store(lanes, value);
    std::memcpy(to, lanes, static_cast<std::size_t>(count) * sizeof(Real));
}

template <int... Lane>
using Lanes = std::integer_sequence<int, Lane...>;

template <int Count>
using LanesUpTo = std::make_integer_sequence<int, Count>;

// The lower half of a vector plus its upper half.
template <class Whole, int... Lane>
FASTWEIGHTS_INLINE auto add_halves(Whole value, Lanes<Lane...>) {
    return __builtin_shufflevector(value, value, Lane...) + __builtin_shufflevector(value, value, (Lane + int(sizeof...(Lane)))...);
}

// A pairwise sum of the lanes: always in the same order.
template <class Real, int Count = kLanes<Real>, class Whole>
FASTWEIGHTS_INLINE Real sum_of_lanes(Whole value) {
    if constexpr (Count == 2)
        return value[0] + value[1];
    else if constexpr (Count == 4 && sizeof(Real) == 4)  // vectors of two floats end up in memory
        return (value[0] + value[2]) + (value[1] + value[3]);
    else
        return sum_of_lanes<Real, Count / 2>(add_halves(value, LanesUpTo<Count / 2>{}));
}

// x · y; rows of any length.
template <class Real>
Real dot(const Real* x, const Real* y, Index count) {
    const Index whole = count / kLanes<Real> * kLanes<Real>, rest = count - whole;
    Vector<Real> sum = {};
    for (Index i = 0; i < whole; i += kLanes<Real>) sum += load(x + i) * load(y + i);
    if (rest) sum += load_part(x + whole, rest) * load_part(y + whole, rest);
    return sum_of_lanes<Real>(sum);
}

template <class Whole, int... Lane>
FASTWEIGHTS_INLINE auto larger_halves(Whole value, Lanes<Lane...>) {
    const auto lower = __builtin_shufflevector(value, value, Lane...);
    const auto upper = __builtin_shufflevector(value, value, (Lane + int(sizeof...(Lane)))...);
    return lower > upper ? lower : upper;
}

// The largest lane, where none is NaN.
template <class Real, int Count = kLanes<Real>, class Whole>
FASTWEIGHTS_INLINE Real largest_of_lanes(Whole value) {
    if constexpr (Count * sizeof(Real) > 16)
        return largest_of_lanes<Real, Count / 2>(larger_halves(value, LanesUpTo<Count / 2>{}));
    Real largest = value[0];
    for (int lane = 1; lane < Count; ++lane) largest = value[lane] > largest ? value[lane] : largest;
    return largest;
}

// Fetch a row into the cache before it is read or written. Always inline, and so must be who calls them: the compiler takes a
// function that does nothing but fetch for one without effect and leaves it out.
template <class Real>
FASTWEIGHTS_INLINE void fetch_to_read(const Real* row, Index columns) {
    for (Index column = 0; column < columns; column += 64 / static_cast<Index>(sizeof(Real))) __builtin_prefetch(row + column, 0);
}

template <class Real>
FASTWEIGHTS_INLINE void fetch_to_write(Real* row, Index columns) {
    for (Index column = 0; column < columns; column += 64 / static_cast<Index>(sizeof(Real))) __builtin_prefetch(row + column, 1);
}

template <class Real>
FASTWEIGHTS_INLINE void copy_padded(Real* to, const Real* from, Index count, Index padded) {
    std::memcpy(to, from, static_cast<std::size_t>(count) * sizeof(Real));
    std::memset(to + count, 0, static_cast<std::size_t>(padded - count) * sizeof(Real));
}

FASTWEIGHTS_INLINE Index round_up(Index value, Index multiple) { return (value + multiple - 1) / multiple * multiple; }

}  // namespace fastweights::FASTWEIGHTS_LEVEL
