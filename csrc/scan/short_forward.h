// Forward pass of a short sequence that begins with an empty memory: attention, and W only at the end.
//
//   r_i = Σ_{j<i} L_ij u_j ;   u_i = b_i v_i - a_i r_i ;   y_i = Σ_{j≤i} P_ij u_j ;   W = Σ_j D_tj u_j k_jᵀ
//
// About t (k + v) + k v products a step instead of the 3 k v of scan/forward.h, in registers that serve many of them for one load.
#pragma once

#include "scan/overlaps.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real>
class ShortForward {
  public:
    ShortForward(const HeadForward<Real>& whole, Places<Real>& places)
        : head(whole), overlaps(places, whole.steps, whole.key_dim, whole.decay, false), updates(places.rows(whole.steps, whole.value_dim)),
          retrieved(places.rows(whole.steps, whole.value_dim)), keys(places.rows(whole.steps, whole.key_dim)),
          reads(place(places, whole.reads, whole.read_step, whole.steps, whole.value_dim)),
          weights(place(places, whole.final_weights, whole.key_dim, whole.value_dim, whole.key_dim)) {}

    // False if a result is not finite: then the scan has to say which of them are not.
    bool run() const {
        overlaps.compute(head.queries, head.query_step, head.keys, head.key_step, head.decay, head.decay_step);
        for (Index first = 0; first < head.steps; first += kBlock) {
            const Term<Real> before[1] = {{{overlaps.retrievals.row(first), overlaps.retrievals.stride, 1}, read_only(updates), first}};
            multiply(Rows<Real>{retrieved.row(first), retrieved.stride}, overlaps.rows_of(first), updates.stride / kLanes<Real>, before);
            solve(first);
            const Index seen = std::min(head.steps, first + kBlock);
            const Term<Real> until[1] = {{{overlaps.reads.row(first), overlaps.reads.stride, 1}, read_only(updates), seen}};
            multiply(Rows<Real>{reads.row(first), reads.stride}, overlaps.rows_of(first), updates.stride / kLanes<Real>, until);
        }
        const Term<Real> writes[1] = {{{updates.data, 1, updates.stride}, keys_at_end(), head.steps}};
        multiply(weights, head.value_dim, weights.stride / kLanes<Real>, writes);
        if (head.retrieved) copy_rows(head.retrieved, head.value_dim, read_only(retrieved), head.steps, head.value_dim);
        copy_rows(head.reads, head.read_step, read_only(reads), head.steps, head.value_dim);
        copy_rows(head.final_weights, head.key_dim, read_only(weights), head.value_dim, head.key_dim);
        return sum_of_lanes<Real>(not_finite(read_only(reads), head.steps, head.value_dim) +
                                  not_finite(read_only(weights), head.value_dim, head.key_dim)) == 0;
    }

  private:
    const HeadForward<Real>& head;
    const Overlaps<Real> overlaps;
    const Rows<Real> updates, retrieved, keys, reads, weights;

    // Results whose rows are whole vectors are computed where they belong.
    static Rows<Real> place(Places<Real>& places, Real* result, Index step, Index rows, Index columns) {
        if (columns % kLanes<Real> == 0) return {result, step};
        return places.rows(rows, columns);
    }

    // r and u of the steps of one block, in turn; r holds what comes from the blocks before.
    void solve(Index first) const {
        Index column = 0;
        for (; column + 4 * kLanes<Real> <= updates.stride; column += 4 * kLanes<Real>) solve_columns<4>(first, column);
        for (; column < updates.stride; column += kLanes<Real>) solve_columns<1>(first, column);
    }

    template <int Vectors>
    void solve_columns(Index first, Index column) const {
        Vector<Real> sums[Vectors], value[Vectors];
        for (Index i = first; i < first + overlaps.rows_of(first); ++i) {
            const Real erase = head.erase[i * head.erase_step], write = head.write[i * head.write_step];
            load_columns<Real, Vectors>(sums, retrieved.row(i) + column, Vectors * kLanes<Real>);
            for (Index j = first; j < i; ++j) {
                const Vector<Real> seen = broadcast(overlaps.retrievals.row(i)[j]);
#pragma GCC unroll 4
                for (int part = 0; part < Vectors; ++part) sums[part] += seen * load(updates.row(j) + column + part * kLanes<Real>);
            }
            store_columns<Real, Vectors>(retrieved.row(i) + column, sums, Vectors * kLanes<Real>);
            load_columns<Real, Vectors>(value, head.values + i * head.value_step + column,
                                        std::min<Index>(Vectors * kLanes<Real>, head.value_dim - column));
#pragma GCC unroll 4
            for (int part = 0; part < Vectors; ++part) value[part] = write * value[part] - erase * sums[part];
            store_columns<Real, Vectors>(updates.row(i) + column, value, Vectors * kLanes<Real>);
        }
    }

    // k_j as the last step sees it.
    Rows<const Real> keys_at_end() const {
        if (!head.decay) return whole_rows(head.keys, head.key_step, head.steps, head.key_dim, keys);
        for (Index j = 0; j < head.steps; ++j) copy_padded(keys.row(j), head.keys + j * head.key_step, head.key_dim, keys.stride);
        multiply_rows<Real>(keys, head.steps, overlaps.ratios.row(head.steps - 1));
        return read_only(keys);
    }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
