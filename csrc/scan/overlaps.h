// How much each step of a short sequence sees of every step before it; with them no W is needed.
//
//   P_ij = (q_i·k_j) D_ij  for j ≤ i ;   L_ij = (k_i·k_j) D_ij  for j < i ;   D_ij = g_{j+1} ... g_i
//
// Rows come in blocks of kBlock steps, and a block reaches to its own last step: what lies beyond is never computed, and within
// the block it is zero.
#pragma once

#include "scan/head_forward.h"
#include "scan/tile.h"
#include "simd/small_product.h"
#include "simd/transpose.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// Memory handed out in whole vectors, or only counted where there is none yet.
template <class Real>
class Places {
  public:
    explicit Places(Real* memory) : base(memory) {}

    Rows<Real> rows(Index count, Index columns) {
        const Rows<Real> placed{base ? base + used : nullptr, round_up(columns, kLanes<Real>)};
        used += count * placed.stride;
        return placed;
    }

    Index used = 0;

  private:
    Real* const base;
};

// Rows of whole vectors: those given, or a padded copy of them.
template <class Real>
Rows<const Real> whole_rows(const Real* from, Index step, Index rows, Index columns, Rows<Real> copy) {
    if (columns == copy.stride) return {from, step};
    for (Index row = 0; row < rows; ++row) copy_padded(copy.row(row), from + row * step, columns, copy.stride);
    return {copy.data, copy.stride};
}

template <class Real>
void copy_rows(Real* to, Index step, Rows<const Real> from, Index rows, Index columns) {
    if (to == from.data) return;
    const std::size_t bytes = static_cast<std::size_t>(columns) * sizeof(Real);
    for (Index row = 0; row < rows; ++row) std::memcpy(to + row * step, from.data + row * from.stride, bytes);
}

// Multiplies row i by factors[i].
template <class Real>
void multiply_rows(Rows<Real> of, Index rows, const Real* factors) {
    for (Index row = 0; row < rows; ++row)
        for (Index column = 0; column < of.stride; column += kLanes<Real>) store(of.row(row) + column, factors[row] * load(of.row(row) + column));
}

template <class Real>
Rows<const Real> read_only(Rows<Real> rows) {
    return {rows.data, rows.stride};
}

// Zeros if all numbers are finite, NaN among them if not.
template <class Real>
Vector<Real> not_finite(Rows<const Real> of, Index rows, Index columns) {
    Vector<Real> sum = {};
    for (Index row = 0; row < rows; ++row) {
        const Real* const numbers = of.data + row * of.stride;
        Index column = 0;
        for (; column + kLanes<Real> <= columns; column += kLanes<Real>) sum += load(numbers + column) * Real(0);
        if (column < columns) sum += load_part(numbers + column, columns - column) * Real(0);
    }
    return sum;
}

constexpr Index kBlock = 16;

template <class Real>
class Overlaps {
  public:
    Rows<Real> reads, retrievals, ratios;        // P, L, D
    Rows<Real> plain_reads, plain_retrievals;    // without D, where there is a decay and its gradient is asked for

    Overlaps(Places<Real>& places, Index count, Index key_dim, bool decays, bool backward)
        : reads(places.rows(padded(count), padded(count))), retrievals(places.rows(padded(count), padded(count))),
          ratios(decays ? places.rows(count, padded(count)) : Rows<Real>{nullptr, 0}),
          plain_reads(decays && backward ? places.rows(padded(count), padded(count)) : reads),
          plain_retrievals(decays && backward ? places.rows(padded(count), padded(count)) : retrievals), steps(count), keys(key_dim),
          transposed(places.rows(key_dim, padded(count))) {}

    static Index padded(Index steps) { return round_up(steps, kBlock); }

    void compute(const Real* queries, Index query_step, const Real* given_keys, Index key_step, const Real* decay, Index decay_step) const {
        transpose(transposed.data, transposed.stride, given_keys, key_step, steps, keys);
        if (decay) compute_ratios(decay, decay_step);
        compute_products(plain_reads, queries, query_step, 1);
        compute_products(plain_retrievals, given_keys, key_step, 0);
        if (decay) weigh(reads, plain_reads), weigh(retrievals, plain_retrievals);
    }

    // to_ij = D_ij from_ij, blocks of which may be the same.
    void weigh(Rows<Real> to, Rows<Real> from) const {
        for (Index i = 0; i < steps; ++i)
            for (Index j = 0; j < reach(i); j += kLanes<Real>) store(to.row(i) + j, load(from.row(i) + j) * load(ratios.row(i) + j));
    }

    // Rows [first, first + kBlock) of left @ right for the columns up to their last step; zero from `shift` steps after the diagonal on.
    void multiply_block(Rows<Real> to, Left<Real> left, Rows<const Real> right, Index first, Index inner, Index shift) const {
        const Index rows = rows_of(first);
        const Term<Real> term[1] = {{{left.data + first * left.row, left.row, left.inner}, right, inner}};
        multiply(Rows<Real>{to.row(first), to.stride}, rows, reach(first) / kLanes<Real>, term);
        for (Index i = first; i < first + rows; ++i)
            std::memset(to.row(i) + i + shift, 0, static_cast<std::size_t>(reach(first) - i - shift) * sizeof(Real));
    }

    Index rows_of(Index first) const { return std::min<Index>(kBlock, steps - first); }

    // Where the block of step i ends.
    static Index reach(Index i) { return i / kBlock * kBlock + kBlock; }

  private:
    const Index steps, keys;
    const Rows<Real> transposed;

    void compute_products(Rows<Real> to, const Real* left, Index step, Index shift) const {
        for (Index first = 0; first < steps; first += kBlock)
            multiply_block(to, {left, step, 1}, {transposed.data, transposed.stride}, first, keys, shift);
    }

    // By products, never by quotients: a decay of zero is as good as any.
    void compute_ratios(const Real* decay, Index step) const {
        const Index columns = padded(steps);
        for (Index i = 0; i < steps; ++i) {
            Real* const row = ratios.row(i);
            const Vector<Real> factor = broadcast(decay[i * step]);
            for (Index j = 0; j < columns; j += kLanes<Real>) store(row + j, i ? factor * load(ratios.row(i - 1) + j) : Vector<Real>{});
            std::memset(row + i, 0, static_cast<std::size_t>(columns - i) * sizeof(Real));
            row[i] = 1;
        }
    }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
