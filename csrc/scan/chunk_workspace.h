// The memory that the backward scan in chunks needs.
#pragma once

#include "scan/gradient_head.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// Memory of one thread. `columns` rows of W; `padded` is key_dim rounded up to whole vectors.
template <class Real>
struct Workspace {
    Real *states, *gradient, *before;               // columns × padded: W at every chunk of the segment; F; W for scan/chunk_steps.h
    Real *update;                                   // columns × kChunk, for every chunk of the segment: U
    Real *query, *key, *grad_query, *grad_key, *scratch;  // kChunk × padded
    Real *key_by_time;                              // padded × kChunk
    Real *grad_update, *grad_solved;                // columns × kChunk: dU, dR
    Real *reading, *overlap, *inverse, *grad_reading, *grad_overlap;          // kChunk × kChunk: P, L, (I + L)^-1, dP, dX
    Real *ratio, *query_key, *key_key, *grad_ratio;  // kChunk × kChunk, with decay alone: D, Q Kᵀ, K Kᵀ, dD
    Real *erase, *write, *decay, *since_start, *until_end, *grad_since_start;  // kChunk: a, b, g, Γ, E, dΓ
    // For decay per channel and lookups alone: e, g, their gradients, Γ ∘ Q and Γ ∘ E (kChunk × padded), and Γ_C (padded).
    Real *lookup, *decays, *grad_lookup, *grad_decays, *query_from_start, *lookup_from_start, *whole_decay;

    static Index size(Index key_dim, Index columns, Index checkpoint_every, bool channels) {
        Workspace space;
        return space.place(nullptr, key_dim, columns, checkpoint_every, channels);
    }

    // Lays the arrays out from `base` and returns how many numbers they take.
    Index place(Real* base, Index key_dim, Index columns, Index checkpoint_every, bool channels) {
        const Index padded = round_up(key_dim, kLanes<Real>), chunks = checkpoint_every / kChunk, square = kChunk * kChunk;
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
