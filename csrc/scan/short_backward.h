// Backward pass of a short sequence that begins with an empty memory (scan/short_forward.h): no W anywhere.
//
//   du_j = Σ_{i≥j} P_ij dy_i + Σ_{i>j} L_ij dr_i + D_tj F k_j ;   dr_i = -a_i du_i    with the last step first and F, the gradient of W_t
//   M_ij = (dy_i·u_j) D_ij ;   N_ij = (dr_i·u_j) D_ij
//   dq_i = Σ_{j≤i} M_ij k_j ;   dk_j = Σ_{i≥j} M_ij q_i + Σ_{i>j} N_ij k_i + Σ_{i<j} N_ji k_i + D_tj Fᵀ u_j
//
// About t (3 k + 2 v) products a step instead of the 9 k v of scan/backward.h.
#pragma once

#include "scan/gradient_head.h"
#include "scan/overlaps.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real>
class ShortBackward {
  public:
    ShortBackward(const HeadBackward<Real>& whole, Places<Real>& places)
        : head(whole), steps(whole.steps), overlaps(places, steps, whole.key_dim, whole.decay, true),
          updates(places.rows(steps, whole.value_dim)), by_time(places.rows(whole.value_dim, Overlaps<Real>::padded(steps))),
          grad_updates(places.rows(steps, whole.value_dim)), grad_retrieved(places.rows(steps, whole.value_dim)),
          padded_values(places.rows(steps, whole.value_dim)), padded_queries(places.rows(steps, whole.key_dim)),
          padded_keys(places.rows(steps, whole.key_dim)), grad_queries(places.rows(steps, whole.key_dim)),
          grad_keys(places.rows(steps, whole.key_dim)), final_rows(places.rows(whole.value_dim, whole.key_dim)),
          final_columns(places.rows(whole.key_dim, whole.value_dim)), passed_on(places.rows(1, Overlaps<Real>::padded(steps))) {}

    // False if a result is not finite: then the scan has to say which of them are not.
    bool run() const {
        overlaps.compute(head.queries, head.query_step, head.keys, head.key_step, head.decay, head.decay_step);
        load_updates();
        start_from_final();
        const auto grad_reads = whole_rows(head.grad_reads, head.grad_read_step, steps, head.value_dim, padded_values);
        for (Index first = (steps - 1) / kBlock * kBlock; first >= 0; first -= kBlock) solve_block(first, grad_reads);
        leave_values();
        const Rows<const Real> right{by_time.data, by_time.stride};
        const Left<Real> left{head.grad_reads, head.grad_read_step, 1}, erased{grad_retrieved.data, grad_retrieved.stride, 1};
        for (Index first = 0; first < steps; first += kBlock) {
            overlaps.multiply_block(overlaps.reads, left, right, first, head.value_dim, 1);
            overlaps.multiply_block(overlaps.retrievals, erased, right, first, head.value_dim, 0);
        }
        if (head.decay) {
            leave_decay();
            overlaps.weigh(overlaps.reads, overlaps.reads), overlaps.weigh(overlaps.retrievals, overlaps.retrievals);
        }
        leave_keys();
        const Rows<const Real> values{head.grad_values, head.grad_value_step}, decays{head.grad_decay, head.grad_decay_step};
        Vector<Real> sum = not_finite(read_only(grad_queries), steps, head.key_dim);
        sum += not_finite(read_only(grad_keys), steps, head.key_dim) + not_finite(values, steps, head.value_dim);
        if (head.decay) sum += not_finite(decays, steps, 1);
        return sum_of_lanes<Real>(sum) == 0;
    }

  private:
    const HeadBackward<Real>& head;
    const Index steps;
    const Overlaps<Real> overlaps;
    const Rows<Real> updates, by_time, grad_updates, grad_retrieved, padded_values, padded_queries, padded_keys, grad_queries, grad_keys;
    const Rows<Real> final_rows, final_columns, passed_on;

    // The decay from each step to the last.
    const Real* until_end() const { return overlaps.ratios.row(steps - 1); }

    // u = b v - a r, with steps as rows and as columns
    void load_updates() const {
        for (Index i = 0; i < steps; ++i) {
            const Real erase = head.erase[i * head.erase_step], write = head.write[i * head.write_step];
            const Real *value = head.values + i * head.value_step, *retrieved = head.retrieved + i * head.value_dim;
            Real* const row = updates.row(i);
            for (Index column = 0; column < head.value_dim; ++column) row[column] = write * value[column] - erase * retrieved[column];
            std::memset(row + head.value_dim, 0, static_cast<std::size_t>(updates.stride - head.value_dim) * sizeof(Real));
        }
        transpose(by_time.data, by_time.stride, updates.data, updates.stride, steps, head.value_dim);
    }

    // du and dk as the last W hands them on, dk still without the decay until then.
    void start_from_final() const {
        if (!head.grad_final) {
            std::memset(grad_updates.data, 0, static_cast<std::size_t>(steps * grad_updates.stride) * sizeof(Real));
            std::memset(grad_keys.data, 0, static_cast<std::size_t>(steps * grad_keys.stride) * sizeof(Real));
            return;
        }
        const auto rows = whole_rows(head.grad_final, head.key_dim, head.value_dim, head.key_dim, final_rows);
        transpose(final_columns.data, final_columns.stride, head.grad_final, head.key_dim, head.value_dim, head.key_dim);
        const Term<Real> written[1] = {{{head.keys, head.key_step, 1}, read_only(final_columns), head.key_dim}};
        multiply(grad_updates, steps, grad_updates.stride / kLanes<Real>, written);
        const Term<Real> keys[1] = {{{updates.data, updates.stride, 1}, rows, head.value_dim}};
        multiply(grad_keys, steps, grad_keys.stride / kLanes<Real>, keys);
        if (head.decay) multiply_rows(grad_updates, steps, until_end());
    }

    // du and dr of one block, given those of all later ones
    void solve_block(Index first, Rows<const Real> grad_reads) const {
        const Index rows = overlaps.rows_of(first), later = std::min(first + kBlock, steps);
        const Rows<Real> out{grad_updates.row(first), grad_updates.stride}, weights = overlaps.reads, erasures = overlaps.retrievals;
        const Term<Real> terms[2] = {
            {{weights.row(first) + first, 1, weights.stride}, {grad_reads.data + first * grad_reads.stride, grad_reads.stride}, steps - first},
            {{erasures.row(later) + first, 1, erasures.stride}, {grad_retrieved.row(later), grad_retrieved.stride}, steps - later}};
        multiply_add<Real, 2>(out, read_only(out), rows, out.stride / kLanes<Real>, terms);
        Index column = 0;
        for (; column + 4 * kLanes<Real> <= out.stride; column += 4 * kLanes<Real>) solve_columns<4>(first, rows, column);
        for (; column < out.stride; column += kLanes<Real>) solve_columns<1>(first, rows, column);
    }

    template <int Vectors>
    void solve_columns(Index first, Index rows, Index column) const {
        constexpr Index width = Vectors * kLanes<Real>;
        Vector<Real> sums[Vectors];
        for (Index j = first + rows - 1; j >= first; --j) {
            const Real erase = head.erase[j * head.erase_step];
            load_columns<Real, Vectors>(sums, grad_updates.row(j) + column, width);
            for (Index i = j + 1; i < first + rows; ++i) {
                const Vector<Real> erased = broadcast(overlaps.retrievals.row(i)[j]);
#pragma GCC unroll 4
                for (int part = 0; part < Vectors; ++part) sums[part] += erased * load(grad_retrieved.row(i) + column + part * kLanes<Real>);
            }
            store_columns<Real, Vectors>(grad_updates.row(j) + column, sums, width);
#pragma GCC unroll 4
            for (int part = 0; part < Vectors; ++part) sums[part] *= -erase;
            store_columns<Real, Vectors>(grad_retrieved.row(j) + column, sums, width);
        }
    }

    // dv, da and db
    void leave_values() const {
        for (Index i = 0; i < steps; ++i) {
            const Real *value = head.values + i * head.value_step, *retrieved = head.retrieved + i * head.value_dim, *grad = grad_updates.row(i);
            const Real write = head.write[i * head.write_step];
            Real* const grad_value = head.grad_values + i * head.grad_value_step;
            for (Index column = 0; column < head.value_dim; ++column) grad_value[column] = write * grad[column];
            head.grad_write[i * head.grad_write_step] = dot(value, grad, head.value_dim);
            head.grad_erase[i * head.grad_erase_step] = -dot(retrieved, grad, head.value_dim);
        }
    }

    // Back through D_ij = g_i D_{i-1,j}, last step first; the overlaps hold the gradients of P / D and L / D.
    void leave_decay() const {
        Real* const row = passed_on.data;  // what later steps say of D_ij, j by j
        std::memset(row, 0, static_cast<std::size_t>(passed_on.stride) * sizeof(Real));
        for (Index j = 0; head.grad_final && j < steps; ++j) row[j] = dot(head.keys + j * head.key_step, grad_keys.row(j), head.key_dim);
        for (Index i = steps - 1; i >= 0; --i) {
            const Real later = i + 1 < steps ? head.decay[(i + 1) * head.decay_step] : Real(1);
            Vector<Real> sum = {};
            for (Index j = 0; j < Overlaps<Real>::reach(i); j += kLanes<Real>) {
                const Vector<Real> here = load(overlaps.reads.row(i) + j) * load(overlaps.plain_reads.row(i) + j) +
                                          load(overlaps.retrievals.row(i) + j) * load(overlaps.plain_retrievals.row(i) + j);
                const Vector<Real> grad = later * load(row + j) + here;
                store(row + j, grad);
                if (i) sum += grad * load(overlaps.ratios.row(i - 1) + j);
            }
            head.grad_decay[i * head.grad_decay_step] = sum_of_lanes<Real>(sum);
        }
    }

    // dq and dk
    void leave_keys() const {
        const auto queries = whole_rows(head.queries, head.query_step, steps, head.key_dim, padded_queries);
        const auto keys = whole_rows(head.keys, head.key_step, steps, head.key_dim, padded_keys);
        const Rows<Real> reads = overlaps.reads, retrievals = overlaps.retrievals;
        if (head.decay && head.grad_final) multiply_rows(grad_keys, steps, until_end());
        for (Index first = 0; first < steps; first += kBlock) {
            const Index rows = overlaps.rows_of(first), seen = first + rows, vectors = grad_keys.stride / kLanes<Real>;
            const Term<Real> asked[1] = {{{reads.row(first), reads.stride, 1}, keys, seen}};
            multiply(Rows<Real>{grad_queries.row(first), grad_queries.stride}, rows, vectors, asked);
            const auto from = [&](Rows<const Real> of) { return Rows<const Real>{of.data + first * of.stride, of.stride}; };
            const Term<Real> terms[3] = {{{reads.row(first) + first, 1, reads.stride}, from(queries), steps - first},
                                         {{retrievals.row(first) + first, 1, retrievals.stride}, from(keys), steps - first},
                                         {{retrievals.row(first), retrievals.stride, 1}, keys, seen}};
            const Rows<Real> out{grad_keys.row(first), grad_keys.stride};
            multiply_add<Real, 3>(out, read_only(out), rows, vectors, terms);
        }
        copy_rows(head.grad_queries, head.grad_query_step, read_only(grad_queries), steps, head.key_dim);
        copy_rows(head.grad_keys, head.grad_key_step, read_only(grad_keys), steps, head.key_dim);
    }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
