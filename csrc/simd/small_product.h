// Sums of products of small matrices in cache:  out = start + left @ right + ...  (start may be out itself, or absent).
//
// `right` and `out` have rows of whole vectors (padded by their owner); `left` is read one number at a time, at any
// strides, so it is never transposed. The inner dimension is exact: no padding ever meets an infinity or a NaN.
#pragma once

#include "simd/simd.h"

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

    Real* row(Index index) const { return data + index * stride; }
};

constexpr int kBlockRows = kRegisters / 4;

// One product of a sum of products.
template <class Real>
struct Term {
    Left<Real> left;
    Rows<const Real> right;
    Index inner;
};

template <class Real, int BlockRows, int BlockVectors, int Terms>
FASTWEIGHTS_INLINE void multiply_block(Rows<Real> out, const Real* start, Index start_stride, const Term<Real> (&terms)[Terms],
                                       Index row_offset, Index column_offset) {
    constexpr int lanes = kLanes<Real>;
    Vector<Real> sums[BlockRows][BlockVectors];
#pragma GCC unroll 16
    for (int row = 0; row < BlockRows; ++row)
#pragma GCC unroll 4
        for (int part = 0; part < BlockVectors; ++part)
            sums[row][part] = start ? load(start + (row_offset + row) * start_stride + column_offset + part * lanes) : Vector<Real>{};
    for (int term = 0; term < Terms; ++term) {
        const Left<Real> left = terms[term].left;
        const Real* factors = left.data + row_offset * left.row;
        const Real* line = terms[term].right.data + column_offset;
        for (Index i = 0; i < terms[term].inner; ++i, factors += left.inner, line += terms[term].right.stride) {
            Vector<Real> parts[BlockVectors];
#pragma GCC unroll 4
            for (int part = 0; part < BlockVectors; ++part) parts[part] = load(line + part * lanes);
#pragma GCC unroll 16
            for (int row = 0; row < BlockRows; ++row) {
                const Real factor = factors[row * left.row];
#pragma GCC unroll 4
                for (int part = 0; part < BlockVectors; ++part) sums[row][part] += factor * parts[part];
            }
        }
    }
#pragma GCC unroll 16
    for (int row = 0; row < BlockRows; ++row)
#pragma GCC unroll 4
        for (int part = 0; part < BlockVectors; ++part)
            store(out.row(row_offset + row) + column_offset + part * lanes, sums[row][part]);
}

template <class Real, int BlockVectors, int Terms>
FASTWEIGHTS_INLINE void multiply_panel(Rows<Real> out, const Real* start, Index start_stride, const Term<Real> (&terms)[Terms],
                                       Index rows, Index column) {
    Index row = 0;
    for (; row + kBlockRows <= rows; row += kBlockRows)
        multiply_block<Real, kBlockRows, BlockVectors>(out, start, start_stride, terms, row, column);
    if (kBlockRows > 4 && row + 4 <= rows) {
        multiply_block<Real, 4, BlockVectors>(out, start, start_stride, terms, row, column);
        row += 4;
    }
    if (row + 2 <= rows) {
        multiply_block<Real, 2, BlockVectors>(out, start, start_stride, terms, row, column);
        row += 2;
    }
    if (row < rows) multiply_block<Real, 1, BlockVectors>(out, start, start_stride, terms, row, column);
}

// out = start + left @ right + left @ right + ...; rows × (vectors · lanes). No start: zeros.
template <class Real, int Terms>
void multiply_add(Rows<Real> out, Rows<const Real> start, Index rows, Index vectors, const Term<Real> (&terms)[Terms]) {
    Index part = 0;
    for (; part + 2 <= vectors; part += 2)
        multiply_panel<Real, 2>(out, start.data, start.stride, terms, rows, part * kLanes<Real>);
    if (part < vectors) multiply_panel<Real, 1>(out, start.data, start.stride, terms, rows, part * kLanes<Real>);
}

// out = left @ right + left @ right + ...
template <class Real, int Terms>
void multiply(Rows<Real> out, Index rows, Index vectors, const Term<Real> (&terms)[Terms]) {
    multiply_add<Real>(out, {nullptr, 0}, rows, vectors, terms);
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
