// Products of small matrices in cache:  out = start + left @ right, where start may be out itself, or absent.
//
// `right` and `out` have rows that are whole vectors (padded by their owner); `left` is read one number at a time, at any
// strides, so it is never transposed. The inner dimension is exact: no padding ever meets an infinity or a NaN.
#pragma once

#include "simd.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real>
struct Left {
    const Real* data;
    Index row;    // distance between rows
    Index inner;  // distance between neighbours along the inner dimension
};

template <class Real>
struct Rows {
    Real* data;
    Index stride;

    Real* row(Index which) const { return data + which * stride; }
};

// 32 vector registers with AVX-512 and on aarch64, 16 elsewhere.
#if defined(__AVX512F__) || defined(__aarch64__)
constexpr int kBlockRows = 8;
#else
constexpr int kBlockRows = 4;
#endif

template <class Real, int BlockRows, int BlockVectors, bool Add>
FASTWEIGHTS_INLINE void multiply_block(Rows<Real> out, Rows<const Real> start, Left<Real> left, Rows<const Real> right,
                                       Index inner) {
    constexpr int lanes = kLanes<Real>;
    Vector<Real> sums[BlockRows][BlockVectors];
#pragma GCC unroll 16
    for (int row = 0; row < BlockRows; ++row)
#pragma GCC unroll 4
        for (int part = 0; part < BlockVectors; ++part)
            sums[row][part] = Add ? load(start.data + row * start.stride + part * lanes) : Vector<Real>{};
    for (Index i = 0; i < inner; ++i) {
        Vector<Real> line[BlockVectors];
#pragma GCC unroll 4
        for (int part = 0; part < BlockVectors; ++part) line[part] = load(right.data + i * right.stride + part * lanes);
#pragma GCC unroll 16
        for (int row = 0; row < BlockRows; ++row) {
            const Real factor = left.data[row * left.row + i * left.inner];
#pragma GCC unroll 4
            for (int part = 0; part < BlockVectors; ++part) sums[row][part] += factor * line[part];
        }
    }
#pragma GCC unroll 16
    for (int row = 0; row < BlockRows; ++row)
#pragma GCC unroll 4
        for (int part = 0; part < BlockVectors; ++part)
            store(out.data + row * out.stride + part * lanes, sums[row][part]);
}

template <class Real, int BlockVectors, bool Add>
FASTWEIGHTS_INLINE void multiply_panel(Rows<Real> out, Rows<const Real> start, Left<Real> left, Rows<const Real> right, Index rows,
                                       Index inner) {
    Index row = 0;
    const auto out_at = [&](Index r) { return Rows<Real>{out.data + r * out.stride, out.stride}; };
    const auto start_at = [&](Index r) { return Rows<const Real>{Add ? start.data + r * start.stride : nullptr, start.stride}; };
    const auto left_at = [&](Index r) { return Left<Real>{left.data + r * left.row, left.row, left.inner}; };
    for (; row + kBlockRows <= rows; row += kBlockRows)
        multiply_block<Real, kBlockRows, BlockVectors, Add>(out_at(row), start_at(row), left_at(row), right, inner);
    if (kBlockRows > 4 && row + 4 <= rows) {
        multiply_block<Real, 4, BlockVectors, Add>(out_at(row), start_at(row), left_at(row), right, inner);
        row += 4;
    }
    if (row + 2 <= rows) {
        multiply_block<Real, 2, BlockVectors, Add>(out_at(row), start_at(row), left_at(row), right, inner);
        row += 2;
    }
    if (row < rows) multiply_block<Real, 1, BlockVectors, Add>(out_at(row), start_at(row), left_at(row), right, inner);
}

template <class Real, bool Add>
void multiply_all(Rows<Real> out, Rows<const Real> start, Left<Real> left, Rows<const Real> right, Index rows, Index inner,
                  Index vectors) {
    const auto out_at = [&](Index part) { return Rows<Real>{out.data + part * kLanes<Real>, out.stride}; };
    const auto start_at = [&](Index part) {
        return Rows<const Real>{Add ? start.data + part * kLanes<Real> : nullptr, start.stride};
    };
    const auto right_at = [&](Index part) { return Rows<const Real>{right.data + part * kLanes<Real>, right.stride}; };
    Index part = 0;
    for (; part + 2 <= vectors; part += 2)
        multiply_panel<Real, 2, Add>(out_at(part), start_at(part), left, right_at(part), rows, inner);
    if (part < vectors) multiply_panel<Real, 1, Add>(out_at(part), start_at(part), left, right_at(part), rows, inner);
}

// out = left @ right:  rows × inner times inner × (vectors · lanes)
template <class Real>
void multiply(Rows<Real> out, Left<Real> left, Rows<const Real> right, Index rows, Index inner, Index vectors) {
    multiply_all<Real, false>(out, {nullptr, 0}, left, right, rows, inner, vectors);
}

// out = start + left @ right
template <class Real>
void multiply_add(Rows<Real> out, Rows<const Real> start, Left<Real> left, Rows<const Real> right, Index rows, Index inner,
                  Index vectors) {
    multiply_all<Real, true>(out, start, left, right, rows, inner, vectors);
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
