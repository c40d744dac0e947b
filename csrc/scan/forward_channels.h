// Decay per channel, postponed: rows of a few steps, prepared once for all tiles of a head.
//
// During these steps S is diag(Γ) times the tile, where Γ is the product of their decays so far. A step then writes with k / Γ, reads
// with Γ ∘ q and retrieves with Γ ∘ g' ∘ e', and multiplies no element of the tile; the last step multiplies Γ in. Where a Γ becomes
// too small (or 0), or a key is too large to be divided, every step multiplies by its own decay.
#pragma once

#include "scan/head_forward.h"
#include "scan/tile.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real>
class PostponedChannels {
  public:
    static constexpr Index kSteps = 16;
    static constexpr double kLeast = 1e-6, kLargest = 1e15;  // of Γ; of keys and updates

    static Index memory_size(Index key_dim) { return (3 * kSteps + 1) * round_up(key_dim, kLanes<Real>); }

    PostponedChannels(const HeadForward<Real>& part, Real* memory)
        : head(part), padded(round_up(part.key_dim, kLanes<Real>)), rows(memory), product(memory + 3 * kSteps * padded) {}

    void prepare(Index first, Index count) {
        first_step = first, last_step = first + count - 1;
        Vector<Real> outside = {};
        for (Index column = 0; column < padded; column += kLanes<Real>) outside += prepare_columns(column);
        postponed = sum_of_lanes<Real>(outside) == 0;
    }

    // Whether the step leaves its decay out of the tile.
    FASTWEIGHTS_INLINE bool waits(Index step) const { return postponed && step < last_step; }
    FASTWEIGHTS_INLINE const Real* key(Index step) const { return row(step, 0); }
    FASTWEIGHTS_INLINE const Real* query(Index step) const { return row(step, 1); }
    FASTWEIGHTS_INLINE const Real* next_lookup(Index step) const { return row(step, 2); }

    // What a step that does not wait multiplies the tile with.
    const Real* factors(Index step) const { return postponed ? product : head.decay + step * head.decay_step; }

    // Γ before the step.
    void left_out(Index step, Real* to) const {
        for (Index column = 0; column < head.key_dim; ++column) {
            to[column] = 1;
            for (Index earlier = first_step; earlier < step; ++earlier) to[column] *= head.decay[earlier * head.decay_step + column];
        }
    }

  private:
    const HeadForward<Real>& head;
    const Index padded;
    Real *const rows, *const product;
    Index first_step = 0, last_step = 0;
    bool postponed = false;

    FASTWEIGHTS_INLINE void fetch(Index step, Index column) const {
        fetch_to_read(head.keys + step * head.key_step + column, 1);
        fetch_to_read(head.queries + step * head.query_step + column, 1);
        if (head.lookups != head.keys) fetch_to_read(head.lookups + step * head.lookup_step + column, 1);
        fetch_to_read(head.decay + step * head.decay_step + column, 1);
    }

    FASTWEIGHTS_INLINE Real* row(Index step, Index which) const { return rows + ((step - first_step) * 3 + which) * padded; }

    // One vector of a row; ones beyond its end.
    FASTWEIGHTS_INLINE Vector<Real> part_of(const Real* from, Index column) const {
        if (column + kLanes<Real> <= head.key_dim) return load(from + column);
        Real lanes[kLanes<Real>];
        store(lanes, broadcast(Real(1)));
        std::memcpy(lanes, from + column, static_cast<std::size_t>(head.key_dim - column) * sizeof(Real));
        return load(lanes);
    }

    // One vector of channels, all steps; what it returns is not 0 where they cannot wait.
    Vector<Real> prepare_columns(Index column) {
        const Vector<Real> one = broadcast(Real(1)), largest = broadcast(Real(kLargest));
        Vector<Real> gamma = one, outside = {}, decay = part_of(head.decay + first_step * head.decay_step, column);
        for (Index step = first_step; step <= last_step; ++step) {
            const Index next = std::min<Index>(step + 1, head.steps - 1);
            fetch(std::min<Index>(step + kSteps, head.steps - 1), column);
            const Vector<Real> key = part_of(head.keys + step * head.key_step, column);
            outside += (decay <= one) & (key <= largest) & (key >= -largest) ? Vector<Real>{} : one;
            gamma *= decay;
            decay = part_of(head.decay + next * head.decay_step, column);
            store(row(step, 0) + column, key / gamma);
            store(row(step, 1) + column, gamma * part_of(head.queries + step * head.query_step, column));
            store(row(step, 2) + column, gamma * (decay * part_of(head.lookups + next * head.lookup_step, column)));
        }
        store(product + column, gamma);
        return outside + (gamma >= broadcast(Real(kLeast)) ? Vector<Real>{} : one);
    }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
