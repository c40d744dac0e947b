// Forward scan of a few rows of W, held as they are (vectors along the keys).
//
// The form for very few value columns, where vectors along the values would be mostly empty. One pass over the rows per step, as
// in scan/forward.h.
#pragma once

#include "scan/forward.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

constexpr int kRowsAtOnce = 4;

// w ← g ∘ w + u k, and with the new w:  read = w · q,  next = w · e'.
template <class Real, int Count, Decay Kind>
FASTWEIGHTS_INLINE void update_rows(Real* rows, Index padded, const Real* key, const Real* query, const Real* next_lookup,
                                    const Real* decays, const Real (&update)[Count], Real (&read)[Count], Real (&next)[Count]) {
    constexpr int lanes = kLanes<Real>;
    Vector<Real> reads[Count] = {}, nexts[Count] = {};
    for (Index column = 0; column < padded; column += lanes) {
        const Vector<Real> written = load(key + column), asked = load(query + column), following = load(next_lookup + column);
#pragma GCC unroll 4
        for (int row = 0; row < Count; ++row) {
            Vector<Real> weights = load(rows + row * padded + column);
            if (Kind == Decay::Head) weights *= *decays;
            if (Kind == Decay::Channel) weights *= load(decays + column);
            weights += update[row] * written;
            store(rows + row * padded + column, weights);
            reads[row] += weights * asked;
            nexts[row] += weights * following;
        }
    }
    for (int row = 0; row < Count; ++row) read[row] = sum_of_lanes<Real>(reads[row]), next[row] = sum_of_lanes<Real>(nexts[row]);
}

template <class Real, int Count>
FASTWEIGHTS_INLINE void retrieve_rows(const Real* rows, Index padded, const Real* lookup, Real (&retrieved)[Count]) {
    constexpr int lanes = kLanes<Real>;
    Vector<Real> sums[Count] = {};
    for (Index column = 0; column < padded; column += lanes)
#pragma GCC unroll 4
        for (int row = 0; row < Count; ++row) sums[row] += load(rows + row * padded + column) * load(lookup + column);
    for (int row = 0; row < Count; ++row) retrieved[row] = sum_of_lanes<Real>(sums[row]);
}

template <class Real, Decay Kind>
FASTWEIGHTS_INLINE void load_lookup(Real* to, const HeadForward<Real>& head, Index step, Index padded) {
    const Real* const lookup = lookup_of<Real, Kind>(head, step, to);
    if (lookup != to) std::memcpy(to, lookup, static_cast<std::size_t>(head.key_dim) * sizeof(Real));
    std::memset(to + head.key_dim, 0, static_cast<std::size_t>(padded - head.key_dim) * sizeof(Real));
}

// The workspace holds Count rows, a key, a query, a lookup and the decays, each padded with zeros to whole vectors.
template <class Real, int Count, Decay Kind>
void forward_rows(const HeadForward<Real>& head, Real* workspace) {
    const Index key_dim = head.key_dim, padded = round_up(key_dim, kLanes<Real>);
    Real *rows = workspace, *key = rows + Count * padded, *lookup = key + padded, *query = lookup + padded, *spread = query + padded;
    for (int row = 0; row < Count; ++row) {
        if (head.weights)
            copy_padded(rows + row * padded, head.weights + row * key_dim, key_dim, padded);
        else
            std::memset(rows + row * padded, 0, static_cast<std::size_t>(padded) * sizeof(Real));
    }
    const bool looks_up_keys = Kind != Decay::Channel && head.lookups == head.keys;
    Real retrieved[Count] = {}, update[Count], read[Count], next[Count];
    if (head.steps > 0) {
        load_lookup<Real, Kind>(lookup, head, 0, padded);
        retrieve_rows<Real, Count>(rows, padded, lookup, retrieved);
    }
    for (Index step = 0; step < head.steps; ++step) {
        if (looks_up_keys)
            std::swap(key, lookup);
        else
            copy_padded(key, head.keys + step * head.key_step, key_dim, padded);
        copy_padded(query, head.queries + step * head.query_step, key_dim, padded);
        load_lookup<Real, Kind>(lookup, head, std::min<Index>(step + 1, head.steps - 1), padded);
        const Real* decays = Kind == Decay::None ? nullptr : head.decay + step * head.decay_step;
        const Real erase = head.erase[step * head.erase_step], write = head.write[step * head.write_step];
        for (int row = 0; row < Count; ++row) {
            if (Kind == Decay::Head) retrieved[row] *= *decays;
            update[row] = write * head.values[step * head.value_step + row] - erase * retrieved[row];
            if (head.retrieved) head.retrieved[step * head.value_dim + row] = retrieved[row];
        }
        if (Kind == Decay::Channel) copy_padded(spread, decays, key_dim, padded), decays = spread;
        update_rows<Real, Count, Kind>(rows, padded, key, query, lookup, decays, update, read, next);
        for (int row = 0; row < Count; ++row) head.reads[step * head.read_step + row] = read[row], retrieved[row] = next[row];
        const Index done = step + 1;
        if (head.checkpoints && done < head.steps && done % head.checkpoint_every == 0)
            for (int row = 0; row < Count; ++row)
                std::memcpy(head.checkpoints + (done / head.checkpoint_every - 1) * head.value_dim * key_dim + row * key_dim, rows + row * padded,
                            static_cast<std::size_t>(key_dim) * sizeof(Real));
    }
    for (int row = 0; row < Count; ++row)
        std::memcpy(head.final_weights + row * key_dim, rows + row * padded, static_cast<std::size_t>(key_dim) * sizeof(Real));
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
