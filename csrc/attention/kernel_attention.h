// Attention by the kernel κ(q, k) = φ(q)·φ(k), normalised, for sequences so short that no memory is built:
//
//   a_ij = κ(q_i, k_j) e_ij ;   P_ij = a_ij / Σ_j a_ij ;   y_i = Σ_j P_ij v_j        over real j, and j ≤ i if causal
//
// e_ij = exp(s_j - max s) for maps that keep the scale s_j of a key apart, else 1. Features stay in the cache: a head's are made,
// used and forgotten. The backward pass makes them again and reads P.
//   dP = dY Vᵀ ;   dV = Pᵀ dY ;   da_ij = (dP_ij - Σ_j dP_ij P_ij) / Σ_j a_ij ;   dφ(q) = (da e) φ(k) ;   dφ(k) = (da e)ᵀ φ(q)
#pragma once

#include "features/dpfp.h"
#include "features/favor.h"
#include "scan/forward.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// DPFP and ELU+1 keep no scale apart, and their backward pass needs no features.
template <class Real, class Map>
class UnscaledMap {
  public:
    static constexpr Index kTogether = Map::kTogether;
    static constexpr bool kScaled = false;

    explicit UnscaledMap(const Map& rows) : map(rows) {}

    void forward(Rows<const Real> x, Rows<Real> y, Real*, Index count) const { map.forward(x, y, count); }

    void backward(Rows<const Real> x, Rows<const Real>, Rows<const Real> grad, Rows<Real> grad_x, Index count) const {
        map.backward(x, grad, grad_x, count);
    }

  private:
    const Map map;
};

template <class Real, class Map>
class KernelAttention {
  public:
    static Index workspace_size(const AttentionShape& shape) {
        const Index k = round_up(shape.features, kLanes<Real>), s = round_up(shape.steps, kLanes<Real>);
        const Index v = round_up(shape.value_dim, kLanes<Real>);
        return 2 * (shape.queries + shape.steps) * k + (k + v) * s + 2 * shape.queries * s + (shape.queries + 2 * shape.steps) * v +
               3 * s + round_up(shape.queries, kLanes<Real>);
    }

    KernelAttention(const AttentionCall& arguments, Index which_batch, Index which_head, const Map& feature_map, Real* memory)
        : call(arguments), shape(arguments.shape), batch(which_batch), head(which_head), map(feature_map), next(memory) {}

    void forward() {
        map_inputs();
        compute_scores();
        normalise();
        const Term<Real> term[1] = {{{weights.data, weights.stride, 1}, {values.data, values.stride}, shape.steps}};
        multiply(reads, shape.queries, reads.stride / kLanes<Real>, term);
        copy(rows_of(call.reads), reads, shape.queries, shape.value_dim);
    }

    void backward() {
        map_inputs();
        load_weights();
        const Rows<Real> grad_reads = rows_of(call.grad_reads);
        for (Index i = 0; i < shape.queries; ++i) copy_padded(reads.row(i), grad_reads.row(i), shape.value_dim, reads.stride);
        const Term<Real> for_values[1] = {{{weights.data, 1, weights.stride}, {reads.data, reads.stride}, shape.queries}};
        multiply(grad_values, shape.steps, grad_values.stride / kLanes<Real>, for_values);
        copy(rows_of(call.grad_values), grad_values, shape.steps, shape.value_dim);
        compute_score_gradients();
        const Term<Real> for_queries[1] = {{{scores.data, scores.stride, 1}, {keys.data, keys.stride}, shape.steps}};
        multiply(grad_queries, shape.queries, grad_queries.stride / kLanes<Real>, for_queries);
        const Term<Real> for_keys[1] = {{{scores.data, 1, scores.stride}, {queries.data, queries.stride}, shape.queries}};
        multiply(grad_keys, shape.steps, grad_keys.stride / kLanes<Real>, for_keys);
        unmap(rows_of(call.queries), queries, grad_queries, rows_of(call.grad_queries), shape.queries);
        unmap(rows_of(call.keys), keys, grad_keys, rows_of(call.grad_keys), shape.steps);
    }

  private:
    const AttentionCall& call;
    const AttentionShape& shape;
    const Index batch, head;
    const Map& map;
    Real* next;

    const Rows<Real> queries = place(shape.queries, shape.features), keys = place(shape.steps, shape.features);
    const Rows<Real> grad_queries = place(shape.queries, shape.features), grad_keys = place(shape.steps, shape.features);
    const Rows<Real> transposed = place(round_up(std::max(shape.features, shape.value_dim), kLanes<Real>), shape.steps);
    const Rows<Real> scores = place(shape.queries, shape.steps), weights = place(shape.queries, shape.steps);
    const Rows<Real> reads = place(shape.queries, shape.value_dim), values = place(shape.steps, shape.value_dim);
    const Rows<Real> grad_values = place(shape.steps, shape.value_dim);
    Real* const scales = place(1, shape.steps).data;
    Real* const unused_scales = place(1, shape.queries).data;
    // Whole vectors: 1 where the current query sees a step, else 0; e_ij; and the largest scale that is seen.
    Real* const visible = place(1, shape.steps).data;
    Real* const relative = place(1, shape.steps).data;
    Real largest_scale = 0;

    // Memory for rows of whole vectors.
    Rows<Real> place(Index rows, Index columns) {
        const Rows<Real> placed{next, round_up(columns, kLanes<Real>)};
        next += rows * placed.stride;
        return placed;
    }

    Rows<Real> rows_of(const Sequence& sequence) const { return {at<Real>(sequence, batch, head), sequence.time}; }

    static void copy(Rows<Real> to, Rows<Real> from, Index rows, Index columns) {
        for (Index row = 0; row < rows; ++row) std::memcpy(to.row(row), from.row(row), static_cast<std::size_t>(columns) * sizeof(Real));
    }

    void map_inputs() {
        map_rows(rows_of(call.queries), queries, unused_scales, shape.queries);
        map_rows(rows_of(call.keys), keys, scales, shape.steps);
        const Rows<Real> given = rows_of(call.values);
        for (Index j = 0; j < shape.steps; ++j) copy_padded(values.row(j), given.row(j), shape.value_dim, values.stride);
    }

    void map_rows(Rows<Real> x, Rows<Real> y, Real* into_scales, Index count) const {
        for (Index row = 0; row < count; row += Map::kTogether)
            map.forward({x.row(row), x.stride}, {y.row(row), y.stride}, into_scales + row, std::min<Index>(Map::kTogether, count - row));
    }

    void unmap(Rows<Real> x, Rows<Real> features, Rows<Real> grad, Rows<Real> grad_x, Index count) const {
        for (Index row = 0; row < count; row += Map::kTogether)
            map.backward({x.row(row), x.stride}, {features.row(row), features.stride}, {grad.row(row), grad.stride},
                         {grad_x.row(row), grad_x.stride}, std::min<Index>(Map::kTogether, count - row));
    }

    // scores = left @ rightᵀ, whole vectors of them: what stands behind the last step is not zero.
    void multiply_transposed(Rows<Real> left, Rows<Real> right, Index inner) const {
        for (Index row = 0; row < inner; ++row)
            std::memset(transposed.row(row) + transposed.stride - kLanes<Real>, 0, kVectorBytes);
        transpose(transposed.data, transposed.stride, right.data, right.stride, shape.steps, inner);
        const Term<Real> term[1] = {{{left.data, left.stride, 1}, {transposed.data, transposed.stride}, inner}};
        multiply(scores, shape.queries, scores.stride / kLanes<Real>, term);
    }

    void compute_scores() {
        multiply_transposed(queries, keys, shape.features);
        for (Index i = 0; i < shape.queries; ++i) mask_row(i, scores.row(i));
    }

    // Multiplies row i by e_ij, zero where i does not see j. Rows come in order: a causal query sees one step more than the last.
    void mask_row(Index i, Real* row) {
        if (i == 0) {
            std::memset(visible, 0, static_cast<std::size_t>(scores.stride) * sizeof(Real));
            largest_scale = -__builtin_inf();
        }
        if (shape.causal && i < shape.steps) show(i, i + 1);
        if (!shape.causal && i == 0) show(0, shape.steps);
        for (Index j = 0; j < scores.stride; j += kLanes<Real>) {
            Vector<Real> value = load(row + j);
            if constexpr (Map::kScaled) value *= load(relative + j);
            store(row + j, load(visible + j) > 0 ? value : Vector<Real>{});
        }
    }

    // Lets queries see the real steps from `first` on.
    void show(Index first, Index end) {
        const auto* const real = static_cast<const unsigned char*>(call.mask);
        for (Index j = first; j < end; ++j) {
            if (real && !real[batch * shape.steps + j]) continue;
            visible[j] = 1;
            if (Map::kScaled && !(scales[j] <= largest_scale)) largest_scale = scales[j];
        }
        if constexpr (Map::kScaled)
            for (Index j = 0; j < scores.stride; j += kLanes<Real>) {
                const Vector<Real> below = load(scales + j) - largest_scale;
                store(relative + j, exponential<Real>(load(visible + j) > 0 ? below : Vector<Real>{}));
            }
    }

    // P and 1 / Σ a, both kept for the backward pass; nothing is read where the sum vanishes.
    void normalise() const {
        for (Index i = 0; i < shape.queries; ++i) {
            Vector<Real> sums = {};
            for (Index j = 0; j < scores.stride; j += kLanes<Real>) sums += load(scores.row(i) + j);
            const Real total = sum_of_lanes<Real>(sums);
            const bool vanishes = (total < 0 ? -total : total) <= Real(shape.vanishing);
            const Real inverse = vanishes ? Real(0) : 1 / total;
            for (Index j = 0; j < scores.stride; j += kLanes<Real>) store(weights.row(i) + j, load(scores.row(i) + j) * inverse);
            if (!call.weights) continue;
            std::memcpy(kept_weights(i), weights.row(i), static_cast<std::size_t>(shape.steps) * sizeof(Real));
            kept_inverse()[i] = inverse;
        }
    }

    Index first_row() const { return (batch * shape.heads + head) * shape.queries; }
    Real* kept_weights(Index i) const { return static_cast<Real*>(call.weights) + (first_row() + i) * shape.steps; }
    Real* kept_inverse() const { return static_cast<Real*>(call.inverse) + first_row(); }

    void load_weights() const {
        for (Index i = 0; i < shape.queries; ++i) copy_padded(weights.row(i), kept_weights(i), shape.steps, weights.stride);
    }

    // da e in `scores`; `reads` holds dY.
    void compute_score_gradients() {
        multiply_transposed(reads, values, shape.value_dim);
        for (Index i = 0; i < shape.queries; ++i) {
            Real* const row = scores.row(i);
            Vector<Real> sums = {};
            for (Index j = 0; j < scores.stride; j += kLanes<Real>) sums += load(row + j) * load(weights.row(i) + j);
            const Real mean = sum_of_lanes<Real>(sums), inverse = kept_inverse()[i];
            for (Index j = 0; j < scores.stride; j += kLanes<Real>) store(row + j, (load(row + j) - mean) * inverse);
            mask_row(i, row);
        }
    }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
