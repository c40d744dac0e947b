// What the first pass of the backward scan (scan/backward_values.h) leaves for the second (scan/backward_keys.h).
#pragma once

#include "scan/gradient_head.h"
#include "scan/tile.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

// Rows of all steps from `first_step` on, in whole tiles, and sums over each tile's columns.
template <class Real>
struct Between {
    Real *update, *grad_retrieved;                 // steps × row: u, dr
    Real *grad_write, *grad_erase, *grad_decay;    // tiles × steps: what each tile adds to them
    Index first_step, steps, row;

    static Index row_of(Index key_dim, Index value_dim) { return tiles_of<Real>(key_dim, value_dim) * tile_width<Real>(key_dim); }

    // Lays the arrays out from `base` and returns how many numbers they take.
    Index place(Real* base, Index key_dim, Index value_dim, Index from, Index count) {
        Index used = 0;
        const auto take = [&](Index numbers, auto&... arrays) {
            ((arrays = base ? base + used : nullptr, used += round_up(numbers, 64 / static_cast<Index>(sizeof(Real)))), ...);
        };
        first_step = from, steps = count, row = row_of(key_dim, value_dim);
        take(steps * row, update, grad_retrieved);
        take(steps * tiles_of<Real>(key_dim, value_dim), grad_write, grad_erase);
        take(steps * tiles_of<Real>(value_dim, key_dim), grad_decay);
        return used;
    }

    Real* update_of(Index step) const { return update + (step - first_step) * row; }
    Real* grad_retrieved_of(Index step) const { return grad_retrieved + (step - first_step) * row; }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
