// Backward scan of one head, step by step: two passes over every segment of checkpoint_every steps, the last segment first.
//
// The first pass (scan/backward_values.h) does not couple columns of values, the second (scan/backward_keys.h) none of keys, so
// that each has its own tiles, and every tile is a walk like that of the forward scan. In products of k × v numbers per step: three
// for du, three for W, dq and de, three for the gradient of W and dk; with a decay two more for dg. Wide heads with a decay are
// cheaper in chunks: scan/chunk_backward.h.
#pragma once

#include "scan/backward_keys.h"
#include "scan/backward_values.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real>
class HeadGradients {
  public:
    // `state`: what a head keeps from segment to segment. `scratch`: what it does not. `shared`: memory for all heads through which
    // the parts of a head that are computed by several threads speak to each other; none where one thread does all.
    HeadGradients(const ScanBackward& scan, Index batch, Index which, Real* kept, Real* scratch, Real* shared)
        : head(head_of<Real>(scan, batch, which, 0, scan.shape.value_dim)), shape(scan.shape), state(kept), walk(scratch) {
        if (shared)
            between.place(shared + (batch * shape.heads + which) * between_size(shape, shape.steps), shape.key_dim, shape.value_dim, 0, shape.steps);
        else
            walk += between.place(scratch, shape.key_dim, shape.value_dim, 0, segment_steps(shape));
    }

    static Index value_tiles(const ScanShape& shape) { return tiles_of<Real>(shape.key_dim, shape.value_dim); }
    static Index key_tiles(const ScanShape& shape) { return tiles_of<Real>(shape.value_dim, shape.key_dim); }

    static Index segments(const ScanShape& shape) { return (shape.steps + shape.checkpoint_every - 1) / shape.checkpoint_every; }
    static Index segment_steps(const ScanShape& shape) { return std::min<Index>(shape.checkpoint_every, shape.steps); }

    static Index between_size(const ScanShape& shape, Index steps) {
        return Between<Real>().place(nullptr, shape.key_dim, shape.value_dim, 0, steps);
    }

    static Index state_size(const ScanShape& shape) {
        return value_tiles(shape) * value_tile_size(shape) + key_tiles(shape) * key_tile_size(shape);
    }

    // What passes between the passes, W at the start of every chunk and at every step of one, and the keys of a chunk.
    static Index scratch_size(const ScanShape& shape) {
        const Index states = shape.checkpoint_every / kChunk + kChunk + 1;
        return between_size(shape, segment_steps(shape)) + states * key_tile_size(shape) + kChunk * tile_width<Real>(shape.value_dim);
    }

    // All tiles of both passes; segments come last to first.
    void run_segment(Index segment) {
        const Index values = value_tiles(shape), keys = key_tiles(shape);
        const Index first = between.first_step = segment * shape.checkpoint_every, count = steps_of(segment);
        Real* const key_state = state + values * value_tile_size(shape);
        for (Index tile = 0; tile < values; ++tile) run_values(tile, segment, state + tile * value_tile_size(shape));
        for (Index tile = 0; tile < keys; ++tile) run_keys(tile, segment, key_state + tile * key_tile_size(shape));
        add_up(first, count);
    }

    // One tile of a pass, all segments.
    void values_tile(Index tile) {
        for (Index segment = segments(shape) - 1; segment >= 0; --segment) run_values(tile, segment, state);
    }

    void keys_tile(Index tile) {
        for (Index segment = segments(shape) - 1; segment >= 0; --segment) run_keys(tile, segment, state);
    }

    void sums() { add_up(0, shape.steps); }

  private:
    const HeadBackward<Real> head;
    const ScanShape& shape;
    Between<Real> between;
    Real *const state, *walk;

    static Index value_tile_size(const ScanShape& shape) { return shape.key_dim * tile_width<Real>(shape.key_dim); }
    static Index key_tile_size(const ScanShape& shape) { return shape.value_dim * tile_width<Real>(shape.value_dim); }

    Index steps_of(Index segment) const { return std::min<Index>(shape.checkpoint_every, shape.steps - segment * shape.checkpoint_every); }

    void run_values(Index tile, Index segment, Real* gradient) {
        const auto run = [&](auto kind) {
            const Index columns = shape.value_dim - tile * tile_width<Real>(shape.key_dim);
            with_form<Real>(shape.key_dim, columns, [&](auto vectors, auto rows) {
                ValuesPass<Real, vectors.value, rows.value, kind.value> pass(head, between, tile, gradient);
                if (segment == segments(shape) - 1) pass.begin();
                pass.run(segment * shape.checkpoint_every, steps_of(segment));
            });
        };
        if (!head.decay)
            run(std::integral_constant<Decay, Decay::None>{});
        else if (!head.per_channel)
            run(std::integral_constant<Decay, Decay::Head>{});
        else
            run(std::integral_constant<Decay, Decay::Channel>{});
    }

    void run_keys(Index tile, Index segment, Real* gradient) {
        const auto run = [&](auto decays) {
            const Index columns = shape.key_dim - tile * tile_width<Real>(shape.value_dim);
            with_form<Real>(shape.value_dim, columns, [&](auto vectors, auto rows) {
                KeysPass<Real, vectors.value, rows.value, decays.value> pass(head, between, tile, gradient);
                if (segment == segments(shape) - 1) pass.begin();
                pass.run(segment * shape.checkpoint_every, steps_of(segment), walk);
                if (segment == 0) pass.end();
            });
        };
        head.decay ? run(std::true_type{}) : run(std::false_type{});
    }

    // Sums over all columns, tile by tile, always in the same order.
    void add_up(Index first, Index count) {
        const auto sum = [&](const Real* parts, Index tiles, Index step) {
            Real total = parts[step - between.first_step];
            for (Index tile = 1; tile < tiles; ++tile) total += parts[tile * between.steps + step - between.first_step];
            return total;
        };
        for (Index step = first; step < first + count; ++step) {
            head.grad_write[step * head.grad_write_step] = sum(between.grad_write, value_tiles(shape), step);
            head.grad_erase[step * head.grad_erase_step] = sum(between.grad_erase, value_tiles(shape), step);
            if (head.decay && !head.per_channel)
                head.grad_decay[step * head.grad_decay_step] = sum(between.grad_decay, key_tiles(shape), step);
        }
    }
};

}  // namespace fastweights::FASTWEIGHTS_LEVEL
