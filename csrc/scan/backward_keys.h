// Second pass of the backward scan: the gradients of queries, keys, lookups and decay, from the u and dr of the first.
//
//   dq_t = W_tᵀ dy_t ;   dk_t = H_tᵀ u_t ;   de_t = g_t ∘ (W_{t-1}ᵀ dr_t) ;   dg_t = Σ over rows of (H_t + dr_t e_tᵀ) ∘ W_{t-1}
//
// A tile of key columns of W, held as rows of values, walks from a checkpoint to the end of its segment, and one of the gradient
// back to its start; nothing is undone. Columns do not depend on each other. Only dg needs both at once: W of every step is then
// kept for a chunk of steps, computed again from its start.
#pragma once

#include "scan/between.h"
#include "simd/small_product.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real, int Vectors, int Rows, bool Decays>
class KeysPass {
  public:
    static constexpr Index kWidth = Vectors * kLanes<Real>;

    KeysPass(const HeadBackward<Real>& whole, const Between<Real>& results, Index which, Real* memory)
        : head(whole), between(results), tile_index(which), first_column(which * tile_width<Real>(whole.value_dim)),
          columns_left(std::min<Index>(kWidth, whole.key_dim - first_column)), size(whole.value_dim * kWidth), gradient(memory) {}

    // G of the sequence's last step.
    void begin() { load_state(gradient, head.grad_final); }

    // `memory`: what may be forgotten between two segments.
    void run(Index first, Index count, Real* memory) {
        const Index segment = first / head.checkpoint_every;
        load_state(memory, segment ? head.checkpoints + (segment - 1) * head.value_dim * head.key_dim : head.weights);
        if constexpr (!Decays) {
            walk_weights(memory, first, count, nullptr);
            walk_gradient(first, count, nullptr);
        } else {
            const Index chunks = (count + kChunk - 1) / kChunk;
            Real *const kept = memory + head.checkpoint_every / kChunk * size, *const scratch = kept + (kChunk + 1) * size;
            for (Index chunk = 0; chunk + 1 < chunks; ++chunk) advance(memory + chunk * size, first + chunk * kChunk, scratch);
            for (Index chunk = chunks - 1; chunk >= 0; --chunk) {
                const Index start = first + chunk * kChunk, steps = std::min<Index>(kChunk, first + count - start);
                std::memcpy(kept, memory + chunk * size, static_cast<std::size_t>(size) * sizeof(Real));
                walk_weights(kept, start, steps, kept);
                walk_gradient(start, steps, kept);
            }
        }
    }

    void end() {
        for (Index row = 0; head.grad_weights && row < head.value_dim; ++row)
            std::memcpy(head.grad_weights + row * head.key_dim + first_column, gradient + row * kWidth,
                        static_cast<std::size_t>(columns()) * sizeof(Real));
    }

  private:
    typedef Vector<Real> Row[Vectors];

    const HeadBackward<Real>& head;
    const Between<Real>& between;
    const Index tile_index, first_column, columns_left, size;
    Real* const gradient;

    // Known to the compiler where the tile is in registers.
    FASTWEIGHTS_INLINE Index columns() const { return Rows ? kWidth : columns_left; }

    void load_state(Real* to, const Real* from) const {
        if (!from) std::memset(to, 0, static_cast<std::size_t>(size) * sizeof(Real));
        for (Index row = 0; from && row < head.value_dim; ++row)
            copy_padded(to + row * kWidth, from + row * head.key_dim + first_column, columns(), kWidth);
    }

    FASTWEIGHTS_INLINE void load_row(Row& to, const Real* from, Index step, Index distance) const {
        load_columns<Real, Vectors>(to, from + step * distance + first_column, columns());
    }

    FASTWEIGHTS_INLINE void store_row(Real* to, Index step, Index distance, const Row& from) const {
        store_columns<Real, Vectors>(to + step * distance + first_column, from, columns());
    }

    FASTWEIGHTS_INLINE void load_decay(Row& to, Index step) const {
        if (head.per_channel) return load_row(to, head.decay, step, head.decay_step);
#pragma GCC unroll 8
        for (int part = 0; part < Vectors; ++part) to[part] = broadcast(head.decay[step * head.decay_step]);
    }

    // W of the next chunk = W diag(Γ) + Uᵀ (T ∘ K), where T_t is the decay from step t to the chunk's end and Γ that of all its steps
    void advance(Real* state, Index start, Real* scratch) const {
        Row until_end, row, decay;
        for (int part = 0; part < Vectors; ++part) until_end[part] = broadcast(Real(1));
        for (Index step = kChunk - 1; step >= 0; --step) {
            load_row(row, head.keys, start + step, head.key_step), load_decay(decay, start + step);
            for (int part = 0; part < Vectors; ++part) row[part] *= until_end[part], until_end[part] *= decay[part];
            store_columns<Real, Vectors>(scratch + step * kWidth, row, kWidth);
        }
        Real* const next = state + size;
        for (Index i = 0; i < size; i += kLanes<Real>) store(next + i, load(state + i) * until_end[i / kLanes<Real> % Vectors]);
        multiply_add<Real, 1>({next, kWidth}, {next, kWidth}, head.value_dim, Vectors,
                              {{{between.update_of(start), 1, between.row}, {scratch, kWidth}, kChunk}});
    }

    // dq, and de in place of the gradient of lookups (or of keys, where they are the lookups); W of every step if it is to be kept.
    void walk_weights(Real* state, Index first, Index count, Real* kept) const {
        Tile<Real, Vectors, Rows> tile(state, head.value_dim);
        for (Index step = first; step < first + count; ++step) {
            const Real *update = between.update_of(step), *grad_retrieved = between.grad_retrieved_of(step);
            const Real* grad_read = head.grad_reads + step * head.grad_read_step;
            const Index later = std::min<Index>(step + 8, first + count - 1);
            fetch_to_write(head.grad_queries + later * head.grad_query_step + first_column, columns());
            fetch_to_write(head.grad_keys + later * head.grad_key_step + first_column, columns());
            Row key, decay, grad_query, grad_lookup;
            load_row(key, head.keys, step, head.key_step);
            if (Decays) load_decay(decay, step);
            RowSum<Real, Vectors, Rows> asked, looked_up;
            const auto update_row = [&](Index row, int chain, Row& weights) __attribute__((always_inline)) {
                const Vector<Real> looking = broadcast(grad_retrieved[row]), written = broadcast(update[row]), asking = broadcast(grad_read[row]);
#pragma GCC unroll 8
                for (int part = 0; part < Vectors; ++part) {
                    looked_up.chains[chain][part] += looking * weights[part];
                    if (Decays) weights[part] *= decay[part];
                    weights[part] += written * key[part];
                    asked.chains[chain][part] += asking * weights[part];
                }
            };
            if constexpr (Decays)
                tile.visit(update_row, kept + (step - first + 1) * size);
            else
                tile.visit(update_row);
#pragma GCC unroll 8
            for (int part = 0; part < Vectors; ++part) {
                grad_query[part] = asked.total(part), grad_lookup[part] = looked_up.total(part);
                if (Decays) grad_lookup[part] *= decay[part];
            }
            store_row(head.grad_queries, step, head.grad_query_step, grad_query);
            head.grad_lookups ? store_row(head.grad_lookups, step, head.grad_lookup_step, grad_lookup)
                              : store_row(head.grad_keys, step, head.grad_key_step, grad_lookup);
        }
        (void)kept;
    }

    // dk and dg
    void walk_gradient(Index first, Index count, const Real* kept) const {
        Tile<Real, Vectors, Rows> tile(gradient, head.value_dim);
        for (Index step = first + count - 1; step >= first; --step) {
            const Real *update = between.update_of(step), *grad_retrieved = between.grad_retrieved_of(step);
            const Real *grad_read = head.grad_reads + step * head.grad_read_step, *before = Decays ? kept + (step - first) * size : nullptr;
            Row query, lookup, decay, grad_key, grad_lookup;
            load_row(query, head.queries, step, head.query_step);
            head.lookups ? load_row(lookup, head.lookups, step, head.lookup_step)
                         : load_row(lookup, head.keys, step, head.key_step);
            if (Decays) load_decay(decay, step);
            RowSum<Real, Vectors, Rows> sum, shrunk;
            tile.visit([&](Index row, int chain, Row& weights) __attribute__((always_inline)) {
                const Vector<Real> asking = broadcast(grad_read[row]), written = broadcast(update[row]), looking = broadcast(grad_retrieved[row]);
#pragma GCC unroll 8
                for (int part = 0; part < Vectors; ++part) {
                    weights[part] += asking * query[part];
                    sum.chains[chain][part] += written * weights[part];
                    weights[part] += looking * lookup[part];
                    if (Decays) {
                        shrunk.chains[chain][part] += weights[part] * load(before + row * kWidth + part * kLanes<Real>);
                        weights[part] *= decay[part];
                    }
                }
            });
            if (!head.grad_lookups) load_row(grad_lookup, head.grad_keys, step, head.grad_key_step);
#pragma GCC unroll 8
            for (int part = 0; part < Vectors; ++part) {
                grad_key[part] = sum.total(part);
                if (!head.grad_lookups) grad_key[part] += grad_lookup[part];
            }
            store_row(head.grad_keys, step, head.grad_key_step, grad_key);
            if constexpr (Decays) leave_decay(step, shrunk);
        }
        tile.save();
    }

    FASTWEIGHTS_INLINE void leave_decay(Index step, const RowSum<Real, Vectors, Rows>& sum) const {
        Row grad_decay, one;
#pragma GCC unroll 8
        for (int part = 0; part < Vectors; ++part) grad_decay[part] = sum.total(part), one[part] = broadcast(Real(1));
        if (head.per_channel) return store_row(head.grad_decay, step, head.grad_decay_step, grad_decay);
        between.grad_decay[tile_index * between.steps + step - between.first_step] = dot_columns<Real, Vectors>(grad_decay, one, columns());
    }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
