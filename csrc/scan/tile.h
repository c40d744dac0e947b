// A tile of W, of its transpose or of their gradients: rows of a few vectors, all of which every step of a scan visits.
//
// A tile stays in the first-level cache while steps walk past, or in registers where half of them hold it.
#pragma once

#include "simd/simd.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// How g_t is given: not at all, one number, or one number for each component of the keys.
enum class Decay { None, Head, Channel };

// 32 float columns fill the multiply-add units and leave registers for everything else; wider tiles spill.
#if FASTWEIGHTS_VECTOR_BYTES == 64
constexpr int kWidestTile = 2;
#else
constexpr int kWidestTile = 4;
#endif

// A tile of one vector and this many rows is held in registers.
constexpr int kHeldRows = kRegisters / 2;

template <class Real>
FASTWEIGHTS_INLINE Index tile_width(Index rows) {
    return (rows == kHeldRows ? 1 : kWidestTile) * kLanes<Real>;
}

template <class Real>
FASTWEIGHTS_INLINE Index tiles_of(Index rows, Index columns) {
    return (columns + tile_width<Real>(rows) - 1) / tile_width<Real>(rows);
}

// Calls work(vectors, rows) with the form of a tile of so many rows and, from here on, columns; rows is 0 for tiles in memory.
// Those in registers are whole.
template <class Real, class Work>
FASTWEIGHTS_INLINE void with_form(Index rows, Index columns, Work work) {
    constexpr Index lanes = kLanes<Real>;
    if (rows == kHeldRows && columns >= lanes)
        work(std::integral_constant<int, 1>{}, std::integral_constant<int, kHeldRows>{});
    else if (columns <= lanes)
        work(std::integral_constant<int, 1>{}, std::integral_constant<int, 0>{});
    else if (columns <= 2 * lanes)
        work(std::integral_constant<int, 2>{}, std::integral_constant<int, 0>{});
    else
        work(std::integral_constant<int, kWidestTile>{}, std::integral_constant<int, 0>{});
}

template <class Real, int Vectors>
FASTWEIGHTS_INLINE void load_columns(Vector<Real> (&to)[Vectors], const Real* from, Index columns) {
    constexpr int lanes = kLanes<Real>;
    if (columns == Vectors * lanes) {
#pragma GCC unroll 8
        for (int part = 0; part < Vectors; ++part) to[part] = load(from + part * lanes);
    } else {
        Real whole[Vectors * lanes] = {};
        std::memcpy(whole, from, static_cast<std::size_t>(columns) * sizeof(Real));
#pragma GCC unroll 8
        for (int part = 0; part < Vectors; ++part) to[part] = load(whole + part * lanes);
    }
}

template <class Real, int Vectors>
FASTWEIGHTS_INLINE void store_columns(Real* to, const Vector<Real> (&from)[Vectors], Index columns) {
    constexpr int lanes = kLanes<Real>;
    if (columns == Vectors * lanes) {
#pragma GCC unroll 8
        for (int part = 0; part < Vectors; ++part) store(to + part * lanes, from[part]);
    } else {
        Real whole[Vectors * lanes];
#pragma GCC unroll 8
        for (int part = 0; part < Vectors; ++part) store(whole + part * lanes, from[part]);
        std::memcpy(to, whole, static_cast<std::size_t>(columns) * sizeof(Real));
    }
}

// x · y over the columns that exist: what stands in the others is nobody's number.
template <class Real, int Vectors>
FASTWEIGHTS_INLINE Real dot_columns(const Vector<Real> (&x)[Vectors], const Vector<Real> (&y)[Vectors], Index columns) {
    constexpr int lanes = kLanes<Real>;
    if (columns == Vectors * lanes) {
        Vector<Real> sum = x[0] * y[0];
#pragma GCC unroll 8
        for (int part = 1; part < Vectors; ++part) sum += x[part] * y[part];
        return sum_of_lanes<Real>(sum);
    }
    Real products[Vectors * lanes], sum = 0;
    for (int part = 0; part < Vectors; ++part) store(products + part * lanes, x[part] * y[part]);
    for (Index column = 0; column < columns; ++column) sum += products[column];
    return sum;
}

// A sum over the rows of a tile, in several chains: a multiply-add waits for the one before it in the same chain.
template <class Real, int Vectors, int Rows>
struct RowSum {
    static constexpr int kChains = Vectors > 1 ? 1 : Rows ? 4 : 2;
    Vector<Real> chains[kChains][Vectors] = {};

    FASTWEIGHTS_INLINE Vector<Real> total(int part) const {
        if constexpr (kChains == 4) return (chains[0][part] + chains[1][part]) + (chains[2][part] + chains[3][part]);
        if constexpr (kChains == 2) return chains[0][part] + chains[1][part];
        return chains[0][part];
    }
};

template <class Real, int Vectors, int Rows>
class Tile {
  public:
    static constexpr int kChains = RowSum<Real, Vectors, Rows>::kChains;
    static constexpr Index kWidth = Vectors * kLanes<Real>, kRowsAhead = 16;

    FASTWEIGHTS_INLINE Tile(Real* memory, Index count) : data(memory), rows(count) {
        if constexpr (Rows > 0) {
#pragma GCC unroll 16
            for (int row = 0; row < Rows; ++row) load_row(held[row], memory, row);
        }
    }

    // Calls update(row, chain, weights) for every row.
    template <class Update>
    FASTWEIGHTS_INLINE void visit(Update update) {
        if constexpr (Rows > 0) {
#pragma GCC unroll 16
            for (int row = 0; row < Rows; ++row) update(row, row % kChains, held[row]);
        } else {
            visit_memory<false>(update, data);
        }
    }

    // The same, and leaves the rows as they were where they are: the new ones, and from now on the tile, are at `to`.
    template <class Update>
    FASTWEIGHTS_INLINE void visit(Update update, Real* to) {
        if constexpr (Rows > 0) {
#pragma GCC unroll 16
            for (int row = 0; row < Rows; ++row) {
                update(row, row % kChains, held[row]);
                store_row(to, held[row], row);
            }
        } else {
            visit_memory<true>(update, to);
        }
        data = to;
    }

    FASTWEIGHTS_INLINE void save() {
        if constexpr (Rows > 0) {
#pragma GCC unroll 16
            for (int row = 0; row < Rows; ++row) store_row(data, held[row], row);
        }
    }

  private:
    Real* data;
    const Index rows;
    Vector<Real> held[Rows ? Rows : 1][Vectors];

    FASTWEIGHTS_INLINE static void load_row(Vector<Real> (&weights)[Vectors], const Real* from, Index row) {
#pragma GCC unroll 8
        for (int part = 0; part < Vectors; ++part) weights[part] = load(from + row * kWidth + part * kLanes<Real>);
    }

    FASTWEIGHTS_INLINE static void store_row(Real* to, const Vector<Real> (&weights)[Vectors], Index row) {
#pragma GCC unroll 8
        for (int part = 0; part < Vectors; ++part) store(to + row * kWidth + part * kLanes<Real>, weights[part]);
    }

    template <bool Moves, class Update>
    FASTWEIGHTS_INLINE void visit_memory(Update update, Real* to) {
        Index row = 0;
        for (; row + kChains <= rows; row += kChains)
#pragma GCC unroll 4
            for (int chain = 0; chain < kChains; ++chain) visit_row<Moves>(row + chain, chain, update, to);
        for (; row < rows; ++row) visit_row<Moves>(row, 0, update, to);
    }

    template <bool Moves, class Update>
    FASTWEIGHTS_INLINE void visit_row(Index row, int chain, Update update, Real* to) {
        Vector<Real> weights[Vectors];
        load_row(weights, data, row);
        // Where rows go elsewhere, that is further away than the first-level cache.
        if (Moves) fetch_to_write(to + (row + kRowsAhead) * kWidth, kWidth);
        update(row, chain, weights);
        store_row(to, weights, row);
    }
};

// How much a tile may shrink before its decay is multiplied in: until then W is Γ times the tile, which saves a product per element.
constexpr double kLeastPending = 1.0 / 64;

// What may be divided by such a Γ and still be far from infinity.
constexpr double kLargestDivided = 1e30;

template <class Real, int Vectors>
FASTWEIGHTS_INLINE bool all_between(Real lowest, Real highest, const Vector<Real> (&x)[Vectors]) {
    Vector<Real> outside = {};
#pragma GCC unroll 8
    for (int part = 0; part < Vectors; ++part) outside += (x[part] >= lowest) & (x[part] <= highest) ? Vector<Real>{} : broadcast(Real(1));
    return sum_of_lanes<Real>(outside) == 0;
}

template <class Real, int Vectors>
FASTWEIGHTS_INLINE bool may_be_divided(const Vector<Real> (&x)[Vectors]) {
    return all_between<Real, Vectors>(Real(-kLargestDivided), Real(kLargestDivided), x);
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
