// Transposition of a matrix in blocks of lanes × lanes, all in registers.
#pragma once

#include "simd/simd.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// Exchanges the off-diagonal Width × Width blocks of each 2·Width × 2·Width block of two rows.
template <class Real, int Width, int... Lane>
FASTWEIGHTS_INLINE void exchange(Vector<Real>& upper, Vector<Real>& lower, Lanes<Lane...>) {
    constexpr int lanes = kLanes<Real>;
    const Vector<Real> first = __builtin_shufflevector(upper, lower, ((Lane & Width) ? lanes + Lane - Width : Lane)...);
    lower = __builtin_shufflevector(upper, lower, ((Lane & Width) ? lanes + Lane : Lane + Width)...);
    upper = first;
}

template <class Real, int Width>
FASTWEIGHTS_INLINE void exchange_all(Vector<Real>* rows) {
    constexpr int lanes = kLanes<Real>;
    if constexpr (Width < lanes) {
#pragma GCC unroll 16
        for (int row = 0; row < lanes; ++row)
            if (!(row & Width)) exchange<Real, Width>(rows[row], rows[row + Width], LanesUpTo<lanes>{});
        exchange_all<Real, 2 * Width>(rows);
    }
}

template <class Real>
FASTWEIGHTS_INLINE void transpose_block(Real* to, Index to_stride, const Real* from, Index from_stride) {
    constexpr int lanes = kLanes<Real>;
    Vector<Real> rows[lanes];
#pragma GCC unroll 16
    for (int row = 0; row < lanes; ++row) rows[row] = load(from + row * from_stride);
    exchange_all<Real, 1>(rows);
#pragma GCC unroll 16
    for (int row = 0; row < lanes; ++row) store(to + row * to_stride, rows[row]);
}

// to[column][row] = from[row][column]
template <class Real>
void transpose(Real* to, Index to_stride, const Real* from, Index from_stride, Index rows, Index columns) {
    constexpr int lanes = kLanes<Real>;
    const Index whole_rows = rows / lanes * lanes, whole_columns = columns / lanes * lanes;
    for (Index row = 0; row < whole_rows; row += lanes)
        for (Index column = 0; column < whole_columns; column += lanes)
            transpose_block(to + column * to_stride + row, to_stride, from + row * from_stride + column, from_stride);
    for (Index row = 0; row < rows; ++row)
        for (Index column = row < whole_rows ? whole_columns : 0; column < columns; ++column)
            to[column * to_stride + row] = from[row * from_stride + column];
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
