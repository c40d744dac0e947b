// The C interface: chooses the instruction set and shares the work among threads.
//
// A tile is computed by one thread from start to end, and the gradients that sum over tiles are added in the order of the tiles,
// however many threads there are.
#include <algorithm>
#include <cstring>

#include "capi.h"
#include "levels.h"
#include "threads.h"

namespace fastweights {

#define FASTWEIGHTS_DECLARE(level) \
    namespace level {              \
    extern const Kernels float32_kernels, float64_kernels; \
    }
FASTWEIGHTS_DECLARE(baseline)
#if defined(FASTWEIGHTS_X86)
FASTWEIGHTS_DECLARE(avx2)
FASTWEIGHTS_DECLARE(avx512)
#endif

namespace {

struct Level {
    const char* name;
    const Kernels *float32, *float64;
    bool (*supported)();
};

// The best first.
const Level kLevels[] = {
#if defined(FASTWEIGHTS_X86)
    {"avx512", &avx512::float32_kernels, &avx512::float64_kernels,
     [] {
         return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma");
     }},
    {"avx2", &avx2::float32_kernels, &avx2::float64_kernels,
     [] { return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"); }},
#endif
    {"baseline", &baseline::float32_kernels, &baseline::float64_kernels, [] { return true; }},
};

const Level* best_level() {
    for (const Level& level : kLevels)
        if (level.supported()) return &level;
    return nullptr;
}

std::atomic<const Level*> chosen_level{nullptr};

const Level& level_in_use() {
    const Level* level = chosen_level.load();
    if (!level) chosen_level.store(level = best_level());
    return *level;
}

}  // namespace

const Kernels& kernels_for(Index element_bytes) {
    return element_bytes == sizeof(double) ? *level_in_use().float64 : *level_in_use().float32;
}

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

// Tiles of the backward pass: more than one only where heads are few (or very wide), and a function of the shape alone.
Index backward_tile_columns(const ScanShape& shape) {
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
bool scan_backward(const ScanBackward& scan, Index wanted_threads) {
    const ScanShape& shape = scan.shape;
    const Kernels& kernels = kernels_for(sizeof(Real));
    const SharedGradients results = shared_gradients(scan);
    const Index columns = backward_tile_columns(shape), tiles = (shape.value_dim + columns - 1) / columns;
    const Index heads = shape.batch * shape.heads, tile_size = shared_size(results, shape);
    const bool channels = scan.inputs.per_channel || scan.inputs.lookups.data;
    Real* const partial = static_cast<Real*>(allocate((tiles - 1) * tile_size * static_cast<Index>(sizeof(Real))));
    if (!partial) return false;
    const FreeAtEnd guard{partial};
    const Index threads = threads_for(wanted_threads, heads * tiles, 3 * multiply_adds(shape));
    const bool done = parallel_for(heads * tiles, threads, kernels.backward_workspace(shape, columns, channels), [&](Index task, void* workspace) {
        const Index head = task / tiles, tile = task % tiles, first = tile * columns;
        ScanBackward part = scan;
        if (tile > 0) {
            const SharedGradients shared = place_shared(results, partial + (tile - 1) * tile_size, shape);
            part.grad_queries = shared.parts[0], part.grad_keys = shared.parts[1], part.grad_erase = shared.parts[2];
            part.grad_write = shared.parts[3], part.grad_decay = shared.parts[4], part.grad_lookups = shared.parts[5];
        }
        kernels.backward(part, head / shape.heads, head % shape.heads, first, std::min(columns, shape.value_dim - first), workspace);
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

// Calls work(batch, head, first, count, workspace) for pieces of up to 64 rows of every head.
template <class Work>
bool for_pieces(const FeatureRows& rows, Index work_per_row, Index workspace_bytes, Index wanted_threads, Work work) {
    if (rows.batch == 0 || rows.heads == 0 || rows.steps == 0 || rows.input_dim == 0) return true;
    constexpr Index together = 64;
    const Index pieces = (rows.steps + together - 1) / together, tasks = rows.batch * rows.heads * pieces;
    const double multiply_adds = static_cast<double>(rows.batch * rows.heads * rows.steps) * static_cast<double>(work_per_row);
    return parallel_for(tasks, threads_for(wanted_threads, tasks, multiply_adds), workspace_bytes, [&](Index task, void* workspace) {
        const Index head = task / pieces, first = task % pieces * together;
        work(head / rows.heads, head % rows.heads, first, std::min(together, rows.steps - first), workspace);
    });
}

}  // namespace
}  // namespace fastweights

using fastweights::AttentionCall;
using fastweights::DpfpRows;
using fastweights::FeatureRows;
using fastweights::ScanBackward;
using fastweights::ScanForward;

#define FASTWEIGHTS_EXPORT __attribute__((visibility("default")))

extern "C" {

FASTWEIGHTS_EXPORT const char* fastweights_level() { return fastweights::level_in_use().name; }

// Chooses an instruction set by name; 0 if there is none of that name here or this processor lacks it.
FASTWEIGHTS_EXPORT int fastweights_use_level(const char* name) {
    for (const auto& level : fastweights::kLevels)
        if (std::strcmp(level.name, name) == 0 && level.supported()) {
            fastweights::chosen_level.store(&level);
            return 1;
        }
    return 0;
}

// 1 on success, 0 if memory ran out.
FASTWEIGHTS_EXPORT int fastweights_scan_forward(const ScanForward* scan, std::int64_t element_bytes, std::int64_t threads) {
    const auto& shape = scan->shape;
    if (fastweights::nothing_to_do(shape)) return 1;
    if (shape.steps == 0) {
        fastweights::pass_on(scan->final_weights, scan->inputs.weights, shape, element_bytes);
        return 1;
    }
    const auto& kernels = fastweights::kernels_for(element_bytes);
    const std::int64_t tiles = kernels.forward_tiles(shape), tasks = shape.batch * shape.heads * tiles;
    return fastweights::parallel_for(tasks, fastweights::threads_for(threads, tasks, fastweights::multiply_adds(shape)),
                              kernels.forward_workspace(shape), [&](std::int64_t task, void* workspace) {
                                  const std::int64_t head = task / tiles;
                                  kernels.forward(*scan, head / shape.heads, head % shape.heads, task % tiles, workspace);
                              });
}

FASTWEIGHTS_EXPORT int fastweights_scan_backward(const ScanBackward* scan, std::int64_t element_bytes, std::int64_t threads) {
    if (fastweights::nothing_to_do(scan->shape)) return 1;
    if (scan->shape.steps == 0) {
        fastweights::pass_on(scan->grad_weights, scan->grad_final_weights, scan->shape, element_bytes);
        return 1;
    }
    return element_bytes == sizeof(double) ? fastweights::scan_backward<double>(*scan, threads)
                                           : fastweights::scan_backward<float>(*scan, threads);
}

FASTWEIGHTS_EXPORT int fastweights_dpfp(const DpfpRows* call, std::int64_t element_bytes, std::int64_t threads) {
    const auto& kernels = fastweights::kernels_for(element_bytes);
    const std::int64_t work = 8 * call->rows.input_dim * (call->shifts + 1);
    return fastweights::for_pieces(call->rows, work, kernels.dpfp_workspace(*call), threads,
                                   [&](auto batch, auto head, auto first, auto count, void* workspace) {
                                       kernels.dpfp(*call, batch, head, first, count, workspace);
                                   });
}

FASTWEIGHTS_EXPORT int fastweights_kernel_attention(const AttentionCall* call, std::int64_t element_bytes, std::int64_t threads) {
    const auto& kernels = fastweights::kernels_for(element_bytes);
    const auto& shape = call->shape;
    const std::int64_t tasks = shape.batch * shape.heads, inner = shape.features + shape.value_dim;
    if (tasks == 0) return 1;
    const double multiply_adds = static_cast<double>(tasks * shape.queries * shape.steps) * static_cast<double>(inner);
    return fastweights::parallel_for(tasks, fastweights::threads_for(threads, tasks, multiply_adds), kernels.attention_workspace(*call),
                                     [&](std::int64_t task, void* workspace) {
                                         kernels.attention(*call, task / shape.heads, task % shape.heads, workspace);
                                     });
}

FASTWEIGHTS_EXPORT int fastweights_elu_plus_one(const FeatureRows* call, std::int64_t element_bytes, std::int64_t threads) {
    const auto& kernels = fastweights::kernels_for(element_bytes);
    return fastweights::for_pieces(*call, 8 * call->input_dim, 0, threads,
                                   [&](auto batch, auto head, auto first, auto count, void*) {
                                       kernels.elu_plus_one(*call, batch, head, first, count);
                                   });
}

}  // extern "C"
