// Backward scan in chunks of kChunk steps, last to first, as products of small matrices (derivation in docs/math.md): the form for
// wide heads with a decay. The other one is scan/backward.h.
//
// Within a segment of checkpoint_every steps the weights at every chunk are computed again from the checkpoint and the saved
// retrievals (W += Uᵀ K, open loop: nothing is undone or divided, so nothing drifts). Matrices that hang on time alone have
// the time steps of the chunk as their lanes, W and its gradient F have the keys as lanes: no horizontal sum anywhere.
//
// For one chunk, with entry weights W and the gradient F of its final weights (D_ij = g_{j+1} ... g_i, Γ_i = g_1 ... g_i):
//   P = tril(Q Kᵀ ∘ D)   L = stril(A K Kᵀ ∘ D)   dU = Pᵀ dY + E K Fᵀ   dR = (I + L)^-ᵀ dU
//   dV = B dR   db = dR · v   da = -dR · r   dP = tril(dY Uᵀ)   dL = -stril(dR Uᵀ)
//   dQ = Γ dY W + (dP ∘ D) K      dK = (dP ∘ D)ᵀ Q + (dX + dXᵀ) K - AΓ dR W + E U F,   dX = A (dL ∘ D)
//   F ← Γ_C F + (Γ dY)ᵀ Q - (AΓ dR)ᵀ K
// With decay per channel or lookups D_ij is a vector between the factors of these products: scan/chunk_channels.h.
#pragma once

#include "scan/chunk_workspace.h"
#include "simd/small_product.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real, Decay Kind>
class BackwardTile {
  public:
    BackwardTile(const HeadBackward<Real>& tile, Real* workspace)
        : head(tile),
          padded(round_up(tile.key_dim, kLanes<Real>)),
          vectors(padded / kLanes<Real>),
          state_size(tile.columns * padded) {
        space.place(workspace, tile.key_dim, tile.columns, tile.checkpoint_every, kChannels);
    }

    void run() {
        load_state(space.gradient, head.grad_final);
        const Index segments = (head.steps + head.checkpoint_every - 1) / head.checkpoint_every;
        for (Index segment = segments - 1; segment >= 0; --segment) {
            const Index first = segment * head.checkpoint_every, steps = std::min<Index>(head.checkpoint_every, head.steps - first);
            const Index chunks = (steps + kChunk - 1) / kChunk;
            load_state(space.states, segment ? head.checkpoints + (segment - 1) * head.value_dim * head.key_dim : head.weights);
            for (Index chunk = 0; chunk < chunks; ++chunk) {
                load_chunk(chunk, first + chunk * kChunk);
                load_updates();
                if (chunk + 1 < chunks) advance();
            }
            for (Index chunk = chunks - 1; chunk >= 0; --chunk) {
                load_chunk(chunk, first + chunk * kChunk);
                backward();
            }
        }
        for (Index row = 0; head.grad_weights && row < head.columns; ++row)
            std::memcpy(head.grad_weights + row * head.key_dim, space.gradient + row * padded, bytes(head.key_dim));
    }

  private:
    static constexpr bool kHead = Kind == Decay::Head, kChannels = Kind == Decay::Channel;
    static constexpr int kStep = kLanes<Real>;
    static constexpr Index kTimeVectors = kChunk / kStep;

    const HeadBackward<Real>& head;
    Workspace<Real> space;
    const Index padded, vectors, state_size;

    // The chunk at hand.
    Index start, count;
    Real *state, *update;
    Rows<const Real> query, key, lookup, decays;
    Rows<Real> grad_query, grad_key, grad_lookup, grad_decay;
    Left<Real> grad_read, grad_read_by_column;

    static std::size_t bytes(Index numbers) { return static_cast<std::size_t>(numbers) * sizeof(Real); }

    void load_state(Real* to, const Real* from) {
        if (!from) std::memset(to, 0, bytes(state_size));
        for (Index row = 0; from && row < head.columns; ++row)
            copy_padded(to + row * padded, from + row * head.key_dim, head.key_dim, padded);
    }

    // Rows that are whole vectors are read and written where they are, others in the workspace.
    Rows<const Real> load_rows(Real* to, const Real* from, Index step) {
        if (padded == head.key_dim) return {from, step};
        for (Index row = 0; row < count; ++row) copy_padded(to + row * padded, from + row * step, head.key_dim, padded);
        return {to, padded};
    }

    void load_chunk(Index chunk, Index first) {
        start = first, count = std::min<Index>(kChunk, head.steps - first);
        state = space.states + chunk * state_size;
        update = space.update + chunk * head.columns * kChunk;
        query = load_rows(space.query, head.queries + start * head.query_step, head.query_step);
        key = load_rows(space.key, head.keys + start * head.key_step, head.key_step);
        grad_read = {head.grad_reads + start * head.grad_read_step, head.grad_read_step, 1};
        grad_read_by_column = {grad_read.data, 1, head.grad_read_step};
        for (Index step = 0; step < kChunk; ++step) {
            const bool inside = step < count;
            space.erase[step] = inside ? head.erase[(start + step) * head.erase_step] : Real(0);
            space.write[step] = inside ? head.write[(start + step) * head.write_step] : Real(0);
            if (kHead) space.decay[step] = inside ? head.decay[(start + step) * head.decay_step] : Real(1);
        }
        if (kHead) load_ratios();
        if constexpr (kChannels) load_channels();
    }

    // Fetches an eighth of what the chunk before will read and write, and of what will be computed again a segment earlier: no hardware
    // foresees a walk from last to first. A few rows between any two products; more at once would wait for each other.
    FASTWEIGHTS_INLINE void fetch_ahead(Index eighth) const {
        constexpr Index rows = kChunk / 8;
        for (Index step = start - kChunk + eighth * rows, end = step + rows; start >= kChunk && step < end; ++step) {
            fetch_to_read(head.queries + step * head.query_step, head.key_dim);
            fetch_to_read(head.grad_reads + step * head.grad_read_step, head.columns);
            if (kChannels && head.lookups) fetch_to_read(head.lookups + step * head.lookup_step, head.key_dim);
            if (kChannels && head.lookups) fetch_to_write(head.grad_lookups + step * head.grad_lookup_step, head.key_dim);
            if (kChannels && head.per_channel) fetch_to_write(head.grad_decay + step * head.grad_decay_step, head.key_dim);
            fetch_to_write(head.grad_queries + step * head.grad_query_step, head.key_dim);
            fetch_to_write(head.grad_keys + step * head.grad_key_step, head.key_dim);
            fetch_to_write(head.grad_values + step * head.grad_value_step, head.columns);
        }
        const Index earlier = start - head.checkpoint_every;
        for (Index step = earlier + eighth * rows, end = step + rows; earlier >= 0 && step < end; ++step) {
            fetch_to_read(head.keys + step * head.key_step, head.key_dim);
            fetch_to_read(head.values + step * head.value_step, head.columns);
            if (kChannels && head.per_channel) fetch_to_read(head.decay + step * head.decay_step, head.key_dim);
            fetch_to_read(head.retrieved + step * head.value_dim, head.columns);
        }
    }

    // D_ij = g_{j+1} ... g_i by products, never by quotients: a decay of zero is as good as any.
    void load_ratios() {
        Real since_start = 1;
        for (Index i = 0; i < count; ++i) {
            since_start *= space.decay[i];
            space.since_start[i] = since_start;
            Real* row = space.ratio + i * kChunk;
            for (Index j = 0; j < kChunk; ++j) row[j] = j < i ? space.decay[i] * row[j - kChunk] : Real(j == i);
        }
        std::memcpy(space.until_end, space.ratio + (count - 1) * kChunk, bytes(kChunk));
    }

    // Steps become lanes; those beyond the end of the sequence are zero.
    void load_by_time(Real* to, const Real* from, Index step, Index columns) {
        if (count < kChunk) std::memset(to, 0, bytes(columns * kChunk));
        transpose(to, kChunk, from, step, count, columns);
    }

    // u = b v - a r, row by row, then with steps as lanes
    void load_updates() {
        Real* const rows = space.grad_update;
        for (Index step = 0; step < count; ++step) {
            const Real *value = value_row(step), *before = retrieved_row(step);
            for (Index column = 0; column < head.columns; ++column)
                rows[step * head.columns + column] = space.write[step] * value[column] - space.erase[step] * before[column];
        }
        load_by_time(update, rows, head.columns, head.columns);
    }

    const Real* value_row(Index step) const { return head.values + (start + step) * head.value_step; }
    const Real* retrieved_row(Index step) const { return head.retrieved + (start + step) * head.value_dim; }

    // W of the next chunk = Γ_C W + (E U)ᵀ K
    void advance() {
        Real* next = state + state_size;
        if constexpr (kChannels) return advance_channels(next);
        if (kHead) scale(next, state, space.since_start[count - 1]);
        multiply_add<Real, 1>({next, padded}, {kHead ? next : state, padded}, head.columns, vectors,
                              {{{update, kChunk, 1}, kHead ? scaled(key, space.until_end) : key, count}});
    }

    void scale(Real* to, const Real* from, Real factor) {
        for (Index i = 0; i < state_size; i += kStep) store(to + i, factor * load(from + i));
    }

    Rows<const Real> scaled(Rows<const Real> rows, const Real* factors) {
        for (Index row = 0; row < count; ++row)
            for (Index column = 0; column < padded; column += kStep)
                store(space.scratch + row * padded + column, factors[row] * load(rows.row(row) + column));
        return {space.scratch, padded};
    }

    void backward();
    void backward_by_products();
    void backward_by_steps();
    bool finite() const;
    void state_after(Index steps, Real* to) const;
    void overlaps();
    void invert();
    void solve();
    void grad_overlaps();
    void grad_queries();
    void grad_keys();
    void grad_decays();

    void load_channels();
    void advance_channels(Real* next);
    void backward_by_channels();
    void overlaps_by_channel();
    void through_channels(Index column);
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL

#include "scan/chunk_channels.h"
#include "scan/chunk_products.h"
#include "scan/chunk_steps.h"
