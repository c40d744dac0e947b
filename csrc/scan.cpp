// The C interface of the scan: shares the work among threads.
//
// A tile is computed by one thread from start to end, and sums over tiles are added in the order of the tiles, however many threads
// there are.
#include <algorithm>
#include <cstring>

#include "capi.h"
#include "levels.h"
#include "threads.h"

namespace fastweights {
namespace {

double multiply_adds(const ScanShape& shape) {
    return 3.0 * static_cast<double>(shape.batch * shape.heads * shape.steps) * static_cast<double>(shape.key_dim * shape.value_dim);
}

bool nothing_to_do(const ScanShape& shape) {
    return shape.batch == 0 || shape.heads == 0 || shape.key_dim == 0 || shape.value_dim == 0;
}

// A sequence of no steps passes the weights (or their gradient) on.
void pass_on(void* to, const void* from, const ScanShape& shape, Index element_bytes) {
    const auto bytes = static_cast<std::size_t>(shape.batch * shape.heads * shape.value_dim * shape.key_dim * element_bytes);
    from ? std::memcpy(to, from, bytes) : std::memset(to, 0, bytes);
}

// How many heads a thread computes together: several where they lie beside each other in memory, step by step, as layers leave them.
// No number that is computed depends on it.
Index heads_together(const ScanShape& shape, const ScanInputs& inputs, Index threads) {
    constexpr Index tasks_per_thread = 2, most = 16;
    if (inputs.keys.time <= inputs.keys.head) return 1;
    return std::clamp<Index>(shape.batch * shape.heads / (tasks_per_thread * threads), 1, std::min(most, shape.heads));
}

// Up to how many products of k × v numbers a step may cost the t (k + v) of the form without W: measured, where the scan is as fast.
constexpr double kShortForward = 2, kShortBackward = 2.5;

// Whether a sequence is so short, and begins so empty, that its steps look at each other instead of at W (scan/overlaps.h). A function
// of the sizes and of which inputs there are.
bool is_short(const ScanShape& shape, const ScanInputs& inputs, double products) {
    constexpr Index narrowest = 32;  // a scan holds smaller heads in few registers
    if (inputs.weights || inputs.per_channel || inputs.lookups.data) return false;
    if (shape.steps < 2 || shape.steps > shape.checkpoint_every) return false;
    const auto steps = static_cast<double>(shape.steps), keys = static_cast<double>(shape.key_dim), values = static_cast<double>(shape.value_dim);
    return std::min(keys, values) >= narrowest && steps * (keys + values) <= products * keys * values;
}

bool short_forward(const ScanForward& scan, Index wanted_threads, const Kernels& kernels) {
    const ScanShape& shape = scan.shape;
    const Index heads = shape.batch * shape.heads, threads = threads_for(wanted_threads, heads, multiply_adds(shape));
    return parallel_for(heads, threads, kernels.short_forward_workspace(scan), [&](Index task, void* workspace) {
        kernels.short_forward(scan, task / shape.heads, task % shape.heads, workspace);
    });
}

bool short_backward(const ScanBackward& scan, Index wanted_threads, const Kernels& kernels) {
    const ScanShape& shape = scan.shape;
    const Index heads = shape.batch * shape.heads, threads = threads_for(wanted_threads, heads, 3 * multiply_adds(shape));
    return parallel_for(heads, threads, kernels.short_backward_workspace(scan), [&](Index task, void* workspace) {
        kernels.short_backward(scan, task / shape.heads, task % shape.heads, workspace);
    });
}

bool scan_forward(const ScanForward& scan, Index wanted_threads, Index element_bytes) {
    const ScanShape& shape = scan.shape;
    const Kernels& kernels = kernels_for(element_bytes);
    if (is_short(shape, scan.inputs, kShortForward)) return short_forward(scan, wanted_threads, kernels);
    const Index tiles = kernels.forward_tiles(shape);
    const Index threads = threads_for(wanted_threads, shape.batch * shape.heads * tiles, multiply_adds(shape));
    const Index together = heads_together(shape, scan.inputs, threads), groups = (shape.heads + together - 1) / together;
    // Rows of a decay per channel are prepared for all tiles of a head at once, where there are heads enough.
    const bool whole = together > 1 || (scan.inputs.per_channel && shape.batch * shape.heads >= 2 * threads);
    const Index cuts = whole ? 1 : tiles, tasks = shape.batch * groups * cuts;
    const Index bytes = kernels.forward_workspace(scan, together, tiles / cuts);
    return parallel_for(tasks, std::min(threads, tasks), bytes, [&](Index task, void* workspace) {
        const Index group = task / cuts % groups, first = group * together;
        const Share share{first, std::min(together, shape.heads - first), task % cuts * (tiles / cuts), tiles / cuts};
        kernels.forward(scan, task / cuts / groups, share, workspace);
    });
}

// Few heads are shared among threads tile by tile; the result is the same, bit for bit.
bool backward_in_parts(const ScanBackward& scan, Index threads, const Kernels& kernels, const BackwardSizes& sizes) {
    const ScanShape& shape = scan.shape;
    const Index heads = shape.batch * shape.heads;
    void* const between = allocate(heads * sizes.between);
    if (!between) return false;
    const FreeAtEnd guard{between};
    const auto run = [&](BackwardPart part, Index tiles) {
        return parallel_for(heads * tiles, std::min(threads, heads * tiles), sizes.state + sizes.scratch, [&](Index task, void* workspace) {
            const Index head = task / tiles;
            kernels.backward_part(scan, head / shape.heads, head % shape.heads, part, task % tiles, between, workspace);
        });
    };
    return run(BackwardPart::Values, sizes.value_tiles) && run(BackwardPart::Keys, sizes.key_tiles) && run(BackwardPart::Sums, 1);
}

// Tiles of the backward pass in chunks: more than one only where heads are few (or very wide), and a function of the shape alone.
Index chunk_tile_columns(const ScanShape& shape) {
    constexpr Index enough_tasks = 8, narrowest = 16, widest = 128;
    const Index heads = shape.batch * shape.heads;
    const Index wanted = (enough_tasks + heads - 1) / heads;
    Index columns = (shape.value_dim + wanted - 1) / wanted;
    columns = (columns + narrowest - 1) / narrowest * narrowest;
    return std::min({columns, widest, shape.value_dim});
}

// Gradients of the inputs that all tiles share, and how many columns each has; those that are absent have no data.
struct SharedGradients {
    static constexpr int kCount = 6;
    Sequence parts[kCount];
    Index columns[kCount];
};

SharedGradients shared_gradients(const ScanBackward& scan) {
    const Index key_dim = scan.shape.key_dim;
    return {{scan.grad_queries, scan.grad_keys, scan.grad_erase, scan.grad_write, scan.grad_decay, scan.grad_lookups},
            {key_dim, key_dim, 1, 1, scan.inputs.per_channel ? key_dim : 1, key_dim}};
}

// How many numbers the shared gradients of one tile are.
Index shared_size(const SharedGradients& shared, const ScanShape& shape) {
    Index columns = 0;
    for (int i = 0; i < SharedGradients::kCount; ++i) columns += shared.parts[i].data ? shared.columns[i] : 0;
    return shape.batch * shape.heads * shape.steps * columns;
}

// The same gradients in memory of their own.
template <class Real>
SharedGradients place_shared(SharedGradients shared, Real* memory, const ScanShape& shape) {
    for (int i = 0; i < SharedGradients::kCount; ++i) {
        if (!shared.parts[i].data) continue;
        const Index columns = shared.columns[i], head = shape.steps * columns;
        shared.parts[i] = Sequence{memory, shape.heads * head, head, columns};
        memory += shape.batch * shape.heads * head;
    }
    return shared;
}

template <class Real>
void add_sequence(const Sequence& to, const Sequence& from, Index batch, Index head, Index steps, Index columns) {
    if (!to.data) return;
    Real* const out = static_cast<Real*>(to.data) + batch * to.batch + head * to.head;
    const Real* const in = static_cast<const Real*>(from.data) + batch * from.batch + head * from.head;
    for (Index step = 0; step < steps; ++step)
        for (Index column = 0; column < columns; ++column) out[step * to.time + column] += in[step * from.time + column];
}

template <class Real>
bool backward_in_chunks(const ScanBackward& scan, Index wanted_threads) {
    const ScanShape& shape = scan.shape;
    const Kernels& kernels = kernels_for(sizeof(Real));
    const SharedGradients results = shared_gradients(scan);
    const Index columns = chunk_tile_columns(shape), tiles = (shape.value_dim + columns - 1) / columns;
    const Index heads = shape.batch * shape.heads, tile_size = shared_size(results, shape);
    const bool channels = scan.inputs.per_channel || scan.inputs.lookups.data;
    Real* const partial = static_cast<Real*>(allocate((tiles - 1) * tile_size * static_cast<Index>(sizeof(Real))));
    if (!partial) return false;
    const FreeAtEnd guard{partial};
    const Index threads = threads_for(wanted_threads, heads * tiles, 3 * multiply_adds(shape));
    const bool done = parallel_for(heads * tiles, threads, kernels.chunks_workspace(shape, columns, channels), [&](Index task, void* workspace) {
        const Index head = task / tiles, tile = task % tiles, first = tile * columns;
        ScanBackward part = scan;
        if (tile > 0) {
            const SharedGradients shared = place_shared(results, partial + (tile - 1) * tile_size, shape);
            part.grad_queries = shared.parts[0], part.grad_keys = shared.parts[1], part.grad_erase = shared.parts[2];
            part.grad_write = shared.parts[3], part.grad_decay = shared.parts[4], part.grad_lookups = shared.parts[5];
        }
        kernels.backward_chunks(part, head / shape.heads, head % shape.heads, first, std::min(columns, shape.value_dim - first), workspace);
    });
    if (!done || tiles == 1) return done;
    return parallel_for(heads, std::min(threads, heads), 0, [&](Index task, void*) {
        const Index batch = task / shape.heads, head = task % shape.heads;
        for (Index tile = 1; tile < tiles; ++tile) {
            const SharedGradients shared = place_shared(results, partial + (tile - 1) * tile_size, shape);
            for (int i = 0; i < SharedGradients::kCount; ++i)
                add_sequence<Real>(results.parts[i], shared.parts[i], batch, head, shape.steps, results.columns[i]);
        }
    });
}

// A function of the sizes alone: with a decay, chunks have less to do for wide heads.
bool suits_chunks(const ScanBackward& scan) {
    constexpr Index widest = 32 * 64;
    return scan.inputs.decay.data && scan.shape.key_dim * scan.shape.value_dim > widest;
}

bool scan_backward(const ScanBackward& scan, Index wanted_threads, Index element_bytes) {
    if (!scan.grad_weights && is_short(scan.shape, scan.inputs, kShortBackward))
        return short_backward(scan, wanted_threads, kernels_for(element_bytes));
    if (suits_chunks(scan))
        return element_bytes == sizeof(double) ? backward_in_chunks<double>(scan, wanted_threads) : backward_in_chunks<float>(scan, wanted_threads);
    const ScanShape& shape = scan.shape;
    const Kernels& kernels = kernels_for(element_bytes);
    const BackwardSizes sizes = kernels.backward_sizes(shape);
    const Index heads = shape.batch * shape.heads, tiles = std::max(sizes.value_tiles, sizes.key_tiles);
    const Index threads = threads_for(wanted_threads, heads * tiles, 3 * multiply_adds(shape));
    if (threads > 1 && tiles > 1 && heads < 4 * threads) return backward_in_parts(scan, threads, kernels, sizes);
    const Index together = heads_together(shape, scan.inputs, threads), groups = (shape.heads + together - 1) / together;
    const Index tasks = shape.batch * groups;
    return parallel_for(tasks, std::min(threads, tasks), together * sizes.state + sizes.scratch, [&](Index task, void* workspace) {
        const Index first = task % groups * together;
        kernels.backward(scan, task / groups, {first, std::min(together, shape.heads - first), 0, 0}, workspace);
    });
}

}  // namespace
}  // namespace fastweights

#define FASTWEIGHTS_EXPORT __attribute__((visibility("default")))

extern "C" {

// 1 on success, 0 if memory ran out.
FASTWEIGHTS_EXPORT int fastweights_scan_forward(const fastweights::ScanForward* scan, std::int64_t element_bytes, std::int64_t threads) {
    if (fastweights::nothing_to_do(scan->shape)) return 1;
    if (scan->shape.steps > 0) return fastweights::scan_forward(*scan, threads, element_bytes);
    fastweights::pass_on(scan->final_weights, scan->inputs.weights, scan->shape, element_bytes);
    return 1;
}

FASTWEIGHTS_EXPORT int fastweights_scan_backward(const fastweights::ScanBackward* scan, std::int64_t element_bytes, std::int64_t threads) {
    if (fastweights::nothing_to_do(scan->shape)) return 1;
    if (scan->shape.steps > 0) return fastweights::scan_backward(*scan, threads, element_bytes);
    if (scan->grad_weights) fastweights::pass_on(scan->grad_weights, scan->grad_final_weights, scan->shape, element_bytes);
    return 1;
}

}  // extern "C"
