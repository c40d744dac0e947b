// Forward scan: step by step, one pass over the weights per step.
//
//   u_t = b_t v_t - a_t r_t ;   W_t = W_{t-1} diag(g_t) + u_t k_tᵀ ;   y_t = W_t q_t ;   r_{t+1} = W_t (g_{t+1} ∘ e_{t+1})
//
// Rows of W do not depend on each other. A tile of them is held transposed (S = Wᵀ, rows of k, vectors along the values) in
// the first-level cache while the whole sequence walks past; each pass writes a row of S, reads with the query and already
// retrieves with the next lookup: three multiply-adds for one load and one store.
#pragma once

#include "capi.h"
#include "simd/simd.h"
#include "simd/transpose.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// How g_t is given: not at all, one number, or one number for each component of the keys.
enum class Decay { None, Head, Channel };

template <class Real>
FASTWEIGHTS_INLINE Real* at(const Sequence& sequence, Index batch, Index head) {
    return static_cast<Real*>(sequence.data) + batch * sequence.batch + head * sequence.head;
}

// The part of one head that a tile of value columns needs.
template <class Real>
struct HeadForward {
    const Real *queries, *keys, *lookups, *values, *erase, *write, *decay, *weights;
    Index query_step, key_step, lookup_step, value_step, erase_step, write_step, decay_step, read_step;
    Real *reads, *final_weights, *retrieved, *checkpoints;
    Index steps, key_dim, value_dim, columns, checkpoint_every;
};

template <class Real>
HeadForward<Real> head_of(const ScanForward& scan, Index batch, Index head, Index first, Index columns) {
    const ScanShape& shape = scan.shape;
    const ScanInputs& in = scan.inputs;
    const Index index = batch * shape.heads + head, size = shape.value_dim * shape.key_dim;
    const Index count = shape.steps > 0 ? (shape.steps - 1) / shape.checkpoint_every : 0;
    const auto part = [&](void* data, Index offset) { return data ? static_cast<Real*>(data) + offset : nullptr; };
    const Sequence& lookups = in.lookups.data ? in.lookups : in.keys;
    return {at<Real>(in.queries, batch, head),
            at<Real>(in.keys, batch, head),
            at<Real>(lookups, batch, head),
            at<Real>(in.values, batch, head) + first,
            at<Real>(in.erase, batch, head),
            at<Real>(in.write, batch, head),
            in.decay.data ? at<Real>(in.decay, batch, head) : nullptr,
            part(in.weights, index * size + first * shape.key_dim),
            in.queries.time,
            in.keys.time,
            lookups.time,
            in.values.time,
            in.erase.time,
            in.write.time,
            in.decay.time,
            scan.reads.time,
            at<Real>(scan.reads, batch, head) + first,
            part(scan.final_weights, index * size + first * shape.key_dim),
            part(scan.retrieved, index * shape.steps * shape.value_dim + first),
            part(scan.checkpoints, index * count * size + first * shape.key_dim),
            shape.steps,
            shape.key_dim,
            shape.value_dim,
            columns,
            shape.checkpoint_every};
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

// How much a tile may shrink before its decay is multiplied in: until then S is Γ times the tile, which saves a product per element.
constexpr double kLeastPending = 1.0 / 64;

// Whether u / Γ may be written, which is far larger than u.
template <class Real, int Vectors>
FASTWEIGHTS_INLINE bool all_below(const Vector<Real> (&update)[Vectors], Real limit) {
    auto large = (update[0] > limit) | (update[0] < -limit);
    for (int part = 1; part < Vectors; ++part) large |= (update[part] > limit) | (update[part] < -limit);
    bool any = false;
    for (int lane = 0; lane < kLanes<Real>; ++lane) any |= large[lane] != 0;
    return !any;
}

// S ← diag(g) S + k uᵀ, and with the new S:  read = Sᵀ q,  next = Sᵀ e'.
template <class Real, int Vectors, Decay Kind>
FASTWEIGHTS_INLINE void write_read_retrieve(Real* tile, Index key_dim, const Real* key, const Real* query, const Real* next_lookup,
                                            const Real* decays, const Vector<Real> (&update)[Vectors], Vector<Real> (&read)[Vectors],
                                            Vector<Real> (&next)[Vectors]) {
    constexpr int lanes = kLanes<Real>;
#pragma GCC unroll 8
    for (int part = 0; part < Vectors; ++part) read[part] = next[part] = Vector<Real>{};
    for (Index row = 0; row < key_dim; ++row, tile += Vectors * lanes) {
        const Vector<Real> written = broadcast(key[row]), asked = broadcast(query[row]), following = broadcast(next_lookup[row]);
        const Real decay = Kind == Decay::None ? Real(1) : decays[Kind == Decay::Channel ? row : 0];
#pragma GCC unroll 8
        for (int part = 0; part < Vectors; ++part) {
            Vector<Real> weights = load(tile + part * lanes);
            if (Kind != Decay::None) weights *= decay;
            weights += written * update[part];
            store(tile + part * lanes, weights);
            read[part] += asked * weights;
            next[part] += following * weights;
        }
    }
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

// The workspace holds the tile and one lookup.
template <class Real, int Vectors, Decay Kind>
void forward_columns(const HeadForward<Real>& head, Real* tile) {
    constexpr int lanes = kLanes<Real>;
    constexpr Index width = Vectors * lanes;
    Real* const prepared = tile + head.key_dim * width;
    std::memset(tile, 0, static_cast<std::size_t>(head.key_dim * width) * sizeof(Real));
    if (head.weights) transpose(tile, width, head.weights, head.key_dim, head.columns, head.key_dim);
    Vector<Real> retrieved[Vectors] = {}, update[Vectors], read[Vectors], next[Vectors];
    if (head.steps > 0) {
        const Real* const lookup = lookup_of<Real, Kind>(head, 0, prepared);
        for (Index row = 0; row < head.key_dim; ++row)
            for (int part = 0; part < Vectors; ++part) retrieved[part] += lookup[row] * load(tile + row * width + part * lanes);
    }
    Real pending = 1;  // Γ
    for (Index step = 0; step < head.steps; ++step) {
        const Real* const decays = Kind == Decay::None ? nullptr : head.decay + step * head.decay_step;
        const Real erase = head.erase[step * head.erase_step], write = head.write[step * head.write_step];
        load_columns<Real, Vectors>(update, head.values + step * head.value_step, head.columns);
#pragma GCC unroll 8
        for (int part = 0; part < Vectors; ++part) {
            if (Kind == Decay::Head) retrieved[part] *= *decays;
            update[part] = write * update[part] - erase * retrieved[part];
        }
        if (head.retrieved) store_columns<Real, Vectors>(head.retrieved + step * head.value_dim, retrieved, head.columns);
        // Results are new memory: a store that has to wait for its line holds everything up.
        const Index later = std::min<Index>(step + 8, head.steps - 1);
        fetch_to_write(head.reads + later * head.read_step, width);
        if (head.retrieved) fetch_to_write(head.retrieved + later * head.value_dim, width);
        // Long inputs come from memory, and the processor foresees nothing beyond the end of a page.
        fetch_to_read(head.keys + later * head.key_step, head.key_dim);
        fetch_to_read(head.queries + later * head.query_step, head.key_dim);
        if (head.lookups != head.keys) fetch_to_read(head.lookups + later * head.lookup_step, head.key_dim);
        if (Kind == Decay::Channel) fetch_to_read(head.decay + later * head.decay_step, head.key_dim);
        fetch_to_read(head.values + later * head.value_step, head.columns);
        const Real* key = head.keys + step * head.key_step;
        const Real* next_lookup = lookup_of<Real, Kind>(head, std::min<Index>(step + 1, head.steps - 1), prepared);
        const Real* const query = head.queries + step * head.query_step;
        const Index done = step + 1;
        const bool saved = head.checkpoints && done < head.steps && done % head.checkpoint_every == 0, shown = saved || done == head.steps;
        if (Kind == Decay::Head && !shown && *decays * pending >= Real(kLeastPending) && *decays <= 1 &&
            all_below<Real, Vectors>(update, Real(1e30))) {
            pending *= *decays;
#pragma GCC unroll 8
            for (int part = 0; part < Vectors; ++part) update[part] /= pending;
            write_read_retrieve<Real, Vectors, Decay::None>(tile, head.key_dim, key, query, next_lookup, decays, update, read, next);
#pragma GCC unroll 8
            for (int part = 0; part < Vectors; ++part) read[part] *= pending, next[part] *= pending;
        } else {
            const Real whole = Kind == Decay::Head ? *decays * pending : Real(1);
            write_read_retrieve<Real, Vectors, Kind>(tile, head.key_dim, key, query, next_lookup, Kind == Decay::Head ? &whole : decays,
                                                     update, read, next);
            pending = 1;
        }
        store_columns<Real, Vectors>(head.reads + step * head.read_step, read, head.columns);
#pragma GCC unroll 8
        for (int part = 0; part < Vectors; ++part) retrieved[part] = next[part];
        if (saved)
            transpose(head.checkpoints + (done / head.checkpoint_every - 1) * head.value_dim * head.key_dim, head.key_dim, tile, width,
                      head.key_dim, head.columns);
    }
    transpose(head.final_weights, head.key_dim, tile, width, head.key_dim, head.columns);
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
