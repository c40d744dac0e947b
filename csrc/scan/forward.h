// Forward scan: step by step, one pass over the weights per step.
//
//   u_t = b_t v_t - a_t r_t ;   W_t = W_{t-1} diag(g_t) + u_t k_tᵀ ;   y_t = W_t q_t ;   r_{t+1} = W_t (g_{t+1} ∘ e_{t+1})
//
// Rows of W do not depend on each other. A tile of them is held transposed (S = Wᵀ, rows of k, vectors along the values) in
// the first-level cache while the whole sequence walks past; each pass writes a row of S, reads with the query and already
// retrieves with the next lookup: three multiply-adds for one load and one store.
#pragma once

#include "scan/forward_channels.h"
#include "scan/head_forward.h"
#include "scan/tile.h"
#include "simd/simd.h"
#include "simd/transpose.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// S ← diag(g) S + k uᵀ, and with the new S:  read = Sᵀ q,  next = Sᵀ e'.
template <class Real, int Vectors, int Rows, Decay Kind>
FASTWEIGHTS_INLINE void write_read_retrieve(Tile<Real, Vectors, Rows>& tile, const Real* key, const Real* query, const Real* next_lookup,
                                            const Real* decays, const Vector<Real> (&update)[Vectors], Vector<Real> (&read)[Vectors],
                                            Vector<Real> (&next)[Vectors]) {
    RowSum<Real, Vectors, Rows> reads, nexts;
    const auto read_row = [&](Index row, int chain, const Vector<Real>(&weights)[Vectors]) __attribute__((always_inline)) {
        const Vector<Real> asked = broadcast(query[row]);
#pragma GCC unroll 8
        for (int part = 0; part < Vectors; ++part) reads.chains[chain][part] += asked * weights[part];
    };
    tile.visit([&](Index row, int chain, Vector<Real>(&weights)[Vectors]) __attribute__((always_inline)) {
        const Vector<Real> written = broadcast(key[row]), following = broadcast(next_lookup[row]);
        const Real decay = Kind == Decay::None ? Real(1) : decays[Kind == Decay::Channel ? row : 0];
#pragma GCC unroll 8
        for (int part = 0; part < Vectors; ++part) {
            if (Kind != Decay::None) weights[part] *= decay;
            weights[part] += written * update[part];
            nexts.chains[chain][part] += following * weights[part];
        }
        if (!Rows) read_row(row, chain, weights);
    });
    // The next step waits for what is retrieved, not for what is read.
    if constexpr (Rows > 0) tile.visit(read_row);
#pragma GCC unroll 8
    for (int part = 0; part < Vectors; ++part) read[part] = reads.total(part), next[part] = nexts.total(part);
}

// What step `step` retrieves with, where decay per component makes it g ∘ e: prepared once, for all columns.
template <class Real, Decay Kind>
FASTWEIGHTS_INLINE const Real* lookup_of(const HeadForward<Real>& head, Index step, Real* prepared) {
    const Real* const lookup = head.lookups + step * head.lookup_step;
    if (Kind != Decay::Channel) return lookup;
    const Real* const decay = head.decay + step * head.decay_step;
    for (Index row = 0; row < head.key_dim; ++row) prepared[row] = decay[row] * lookup[row];
    return prepared;
}

// One tile of columns, a stretch of steps at a time; between two of them its memory holds all that the next one needs.
template <class Real, int Vectors, int Rows, Decay Kind>
class ForwardTile {
  public:
    static constexpr Index kWidth = Vectors * kLanes<Real>;

    // `rows`: those of a decay per channel; none where the tile multiplies its decay in at every step.
    ForwardTile(const HeadForward<Real>& part, Real* memory, const PostponedChannels<Real>* rows)
        : head(part), channels(rows), weights(memory), retrieved_then(memory + part.key_dim * kWidth), pending_then(retrieved_then + kWidth),
          prepared(pending_then + kLanes<Real>) {}

    static Index memory_size(Index key_dim) { return (key_dim + 1) * kWidth + kLanes<Real> + round_up(key_dim, kLanes<Real>); }

    // W before the first step, and what that step retrieves.
    void begin() {
        std::memset(weights, 0, static_cast<std::size_t>(head.key_dim * kWidth) * sizeof(Real));
        if (head.weights) transpose(weights, kWidth, head.weights, head.key_dim, head.columns, head.key_dim);
        Vector<Real> retrieved[Vectors] = {};
        const Real* const lookup = lookup_of<Real, Kind>(head, 0, prepared);
        for (Index row = 0; row < head.key_dim; ++row)
            for (int part = 0; part < Vectors; ++part) retrieved[part] += lookup[row] * load(weights + row * kWidth + part * kLanes<Real>);
        store_columns<Real, Vectors>(retrieved_then, retrieved, kWidth);
        *pending_then = 1;
    }

    void run(Index first, Index count) {
        Tile<Real, Vectors, Rows> tile(weights, head.key_dim);
        Vector<Real> retrieved[Vectors], update[Vectors], read[Vectors];
        load_columns<Real, Vectors>(retrieved, retrieved_then, kWidth);
        Real pending = Kind == Decay::Channel ? Real(1) : *pending_then;
        Index next_saved = head.checkpoints ? (first / head.checkpoint_every + 1) * head.checkpoint_every : head.steps;
        for (Index step = first; step < first + count; ++step) {
            const Real erase = head.erase[step * head.erase_step], write = head.write[step * head.write_step];
            load_columns<Real, Vectors>(update, head.values + step * head.value_step, columns());
#pragma GCC unroll 8
            for (int part = 0; part < Vectors; ++part) {
                if (Kind == Decay::Head) retrieved[part] *= head.decay[step * head.decay_step];
                update[part] = write * update[part] - erase * retrieved[part];
            }
            if (head.retrieved) store_columns<Real, Vectors>(head.retrieved + step * head.value_dim, retrieved, columns());
            fetch(std::min<Index>(step + 8, head.steps - 1));
            const bool saved = step + 1 == next_saved && step + 1 < head.steps;
            advance(tile, step, saved || step + 1 == head.steps, pending, update, read, retrieved);
            store_columns<Real, Vectors>(head.reads + step * head.read_step, read, columns());
            if (saved) {
                tile.save();
                transpose(head.checkpoints + (next_saved / head.checkpoint_every - 1) * head.value_dim * head.key_dim, head.key_dim, weights,
                          kWidth, head.key_dim, head.columns);
                next_saved += head.checkpoint_every;
            }
        }
        tile.save();
        store_columns<Real, Vectors>(retrieved_then, retrieved, kWidth);
        *pending_then = pending;
    }

    void end() { transpose(head.final_weights, head.key_dim, weights, kWidth, head.key_dim, head.columns); }

  private:
    const HeadForward<Real>& head;
    const PostponedChannels<Real>* const channels;
    Real *const weights, *const retrieved_then, *const pending_then, *const prepared;

    // Known to the compiler where the tile is in registers.
    FASTWEIGHTS_INLINE Index columns() const { return Rows ? kWidth : head.columns; }
    FASTWEIGHTS_INLINE Index key_dim() const { return Rows ? Rows : head.key_dim; }

    FASTWEIGHTS_INLINE void fetch(Index step) const {
        // Results are new memory: a store that has to wait for its line holds everything up.
        fetch_to_write(head.reads + step * head.read_step, kWidth);
        if (head.retrieved) fetch_to_write(head.retrieved + step * head.value_dim, kWidth);
        // Long inputs come from memory, and the processor foresees nothing beyond the end of a page.
        fetch_to_read(head.values + step * head.value_step, columns());
        if (Kind == Decay::Channel && !Rows && channels) return;
        fetch_to_read(head.keys + step * head.key_step, key_dim());
        fetch_to_read(head.queries + step * head.query_step, key_dim());
        if (head.lookups != head.keys) fetch_to_read(head.lookups + step * head.lookup_step, key_dim());
        if (Kind == Decay::Channel) fetch_to_read(head.decay + step * head.decay_step, key_dim());
    }

    // Step `step`, and what the next one retrieves. A tile that is shown to others is W itself.
    FASTWEIGHTS_INLINE void advance(Tile<Real, Vectors, Rows>& tile, Index step, bool shown, Real& pending, Vector<Real> (&update)[Vectors],
                                    Vector<Real> (&read)[Vectors], Vector<Real> (&next)[Vectors]) {
        if (Kind == Decay::Channel && !Rows && channels) return advance_channels(tile, step, pending, update, read, next);
        const Real *key = head.keys + step * head.key_step, *query = head.queries + step * head.query_step;
        const Real* next_lookup = lookup_of<Real, Kind>(head, std::min<Index>(step + 1, head.steps - 1), prepared);
        const Real* const decays = Kind == Decay::None ? nullptr : head.decay + step * head.decay_step;
        // A tile in registers is multiplied at once: a choice between two loops would take it out of them.
        if (!Rows && Kind == Decay::Head && !shown && *decays * pending >= Real(kLeastPending) && *decays <= 1 &&
            may_be_divided<Real, Vectors>(update)) {
            pending *= *decays;
            const Real inverse = 1 / pending;
#pragma GCC unroll 8
            for (int part = 0; part < Vectors; ++part) update[part] *= inverse;
            write_read_retrieve<Real, Vectors, Rows, Decay::None>(tile, key, query, next_lookup, decays, update, read, next);
#pragma GCC unroll 8
            for (int part = 0; part < Vectors; ++part) read[part] *= pending, next[part] *= pending;
        } else {
            const Real whole = Kind == Decay::Head ? *decays * pending : Real(1);
            write_read_retrieve<Real, Vectors, Rows, Kind>(tile, key, query, next_lookup, Kind == Decay::Head ? &whole : decays, update, read,
                                                           next);
            pending = 1;
        }
    }

    // Updates so large that u / Γ could overflow make this tile multiply its decays in from here on (pending = 0).
    FASTWEIGHTS_INLINE void advance_channels(Tile<Real, Vectors, Rows>& tile, Index step, Real& pending, const Vector<Real> (&update)[Vectors],
                                             Vector<Real> (&read)[Vectors], Vector<Real> (&next)[Vectors]) {
        const Real limit = Real(PostponedChannels<Real>::kLargest);
        if (pending != 0 && channels->waits(step)) {
            if (all_between<Real, Vectors>(-limit, limit, update))
                return write_read_retrieve<Real, Vectors, Rows, Decay::None>(tile, channels->key(step), channels->query(step),
                                                                             channels->next_lookup(step), nullptr, update, read, next);
            channels->left_out(step, prepared);
            tile.visit([&](Index row, int, Vector<Real>(&weights_row)[Vectors]) __attribute__((always_inline)) {
                for (int part = 0; part < Vectors; ++part) weights_row[part] *= prepared[row];
            });
            pending = 0;
        }
        const Real *key = head.keys + step * head.key_step, *query = head.queries + step * head.query_step;
        const Real* const decays = pending != 0 ? channels->factors(step) : head.decay + step * head.decay_step;
        const Real* const next_lookup = lookup_of<Real, Kind>(head, std::min<Index>(step + 1, head.steps - 1), prepared);
        write_read_retrieve<Real, Vectors, Rows, Decay::Channel>(tile, key, query, next_lookup, decays, update, read, next);
    }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
