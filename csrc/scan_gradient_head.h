// What the backward scan of one tile of columns of one head reads, writes, and needs as memory.
#pragma once

#include "scan_forward.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real>
struct HeadBackward {
    const Real *queries, *keys, *lookups, *values, *erase, *write, *decay, *weights, *retrieved, *kept, *grad_reads, *grad_final;
    Index query_step, key_step, lookup_step, value_step, erase_step, write_step, decay_step, grad_read_step;
    Real *grad_queries, *grad_keys, *grad_lookups, *grad_values, *grad_erase, *grad_write, *grad_decay, *grad_weights;
    Index grad_query_step, grad_key_step, grad_lookup_step, grad_value_step, grad_erase_step, grad_write_step, grad_decay_step;
    Index steps, key_dim, value_dim, columns, keep_every;
    bool per_channel;
};

template <class Real>
HeadBackward<Real> head_of(const ScanBackward& scan, Index batch, Index head, Index first, Index columns) {
    const ScanShape& shape = scan.shape;
    const ScanInputs& in = scan.inputs;
    const Index which = batch * shape.heads + head, size = shape.value_dim * shape.key_dim, offset = first * shape.key_dim;
    const Index kept = shape.steps > 0 ? (shape.steps - 1) / shape.keep_every : 0;
    const auto part = [](const void* data, Index by) { return data ? static_cast<const Real*>(data) + by : nullptr; };
    const auto one = [&](const Sequence& sequence) { return sequence.data ? at<Real>(sequence, batch, head) : nullptr; };
    HeadBackward<Real> it;
    it.queries = one(in.queries), it.query_step = in.queries.time;
    it.keys = one(in.keys), it.key_step = in.keys.time;
    it.lookups = one(in.lookups), it.lookup_step = in.lookups.time;
    it.values = one(in.values) + first, it.value_step = in.values.time;
    it.erase = one(in.erase), it.erase_step = in.erase.time;
    it.write = one(in.write), it.write_step = in.write.time;
    it.decay = one(in.decay), it.decay_step = in.decay.time;
    it.weights = part(in.weights, which * size + offset);
    it.retrieved = part(scan.retrieved, which * shape.steps * shape.value_dim + first);
    it.kept = part(scan.kept, which * kept * size + offset);
    it.grad_reads = one(scan.grad_reads) + first, it.grad_read_step = scan.grad_reads.time;
    it.grad_final = part(scan.grad_final_weights, which * size + offset);
    it.grad_queries = one(scan.grad_queries), it.grad_query_step = scan.grad_queries.time;
    it.grad_keys = one(scan.grad_keys), it.grad_key_step = scan.grad_keys.time;
    it.grad_lookups = one(scan.grad_lookups), it.grad_lookup_step = scan.grad_lookups.time;
    it.grad_values = one(scan.grad_values) + first, it.grad_value_step = scan.grad_values.time;
    it.grad_erase = one(scan.grad_erase), it.grad_erase_step = scan.grad_erase.time;
    it.grad_write = one(scan.grad_write), it.grad_write_step = scan.grad_write.time;
    it.grad_decay = one(scan.grad_decay), it.grad_decay_step = scan.grad_decay.time;
    it.grad_weights = static_cast<Real*>(scan.grad_weights) + which * size + offset;
    it.steps = shape.steps, it.key_dim = shape.key_dim, it.value_dim = shape.value_dim;
    it.columns = columns, it.keep_every = shape.keep_every, it.per_channel = in.per_channel != 0;
    return it;
}

// Memory of one thread. `columns` rows of W; `padded` is key_dim rounded up to whole vectors.
template <class Real>
struct Workspace {
    Real *states, *gradient, *before;               // columns × padded: W at every chunk of the segment; F; W for scan_backward_steps.h
    Real *update;                                   // columns × kChunk, for every chunk of the segment: U
    Real *query, *key, *grad_query, *grad_key, *scratch;  // kChunk × padded
    Real *key_by_time;                              // padded × kChunk
    Real *grad_update, *grad_solved;                // columns × kChunk: dU, dR
    Real *reading, *overlap, *inverse, *grad_reading, *grad_overlap;          // kChunk × kChunk: P, L, (I + L)^-1, dP, dX
    Real *ratio, *query_key, *key_key, *grad_ratio;  // kChunk × kChunk, with decay alone: D, Q Kᵀ, K Kᵀ, dD
    Real *erase, *write, *decay, *since_start, *until_end, *grad_since_start;  // kChunk: a, b, g, Γ, E, dΓ
    // For decay per channel and lookups alone: e, g, their gradients, Γ ∘ Q and Γ ∘ E (kChunk × padded), and Γ_C (padded).
    Real *lookup, *decays, *grad_lookup, *grad_decays, *query_from_start, *lookup_from_start, *whole_decay;

    static Index size(Index key_dim, Index columns, Index keep_every, bool channels) {
        Workspace space;
        return space.place(nullptr, key_dim, columns, keep_every, channels);
    }

    // Lays the arrays out from `base` and returns how many numbers they take.
    Index place(Real* base, Index key_dim, Index columns, Index keep_every, bool channels) {
        const Index padded = round_up(key_dim, kLanes<Real>), chunks = keep_every / kChunk, square = kChunk * kChunk;
        Index used = 0;
        const auto take = [&](Index count, auto&... arrays) {
            const Index size = round_up(count, 64 / static_cast<Index>(sizeof(Real)));
            ((arrays = base ? base + used : nullptr, used += size), ...);
        };
        take(chunks * columns * padded, states);
        take(columns * padded, gradient, before);
        take(chunks * columns * kChunk, update);
        take(kChunk * padded, query, key, grad_query, grad_key, scratch, key_by_time);
        take(columns * kChunk, grad_update, grad_solved);
        take(square, reading, overlap, inverse, grad_reading, grad_overlap, ratio, query_key, key_key, grad_ratio);
        take(kChunk, erase, write, decay, since_start, until_end, grad_since_start);
        take(channels ? kChunk * padded : 0, lookup, decays, grad_lookup, grad_decays, query_from_start, lookup_from_start);
        take(channels ? padded : 0, whole_decay);
        return used;
    }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
