// The C interface: chooses the instruction set and shares the work of feature maps and attention among threads.
#include <algorithm>
#include <cstring>

#if defined(FASTWEIGHTS_X86)
#include <cpuid.h>
#endif

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

#define FASTWEIGHTS_EXPORT __attribute__((visibility("default")))

extern "C" {

FASTWEIGHTS_EXPORT int fastweights_interface() { return fastweights::kInterface; }

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

// 1 if the processor announces AMX tiles but describes none (CPUID 7 and 0x1D), as some virtual machines do: a program that
// uses them ends with an illegal instruction.
FASTWEIGHTS_EXPORT int fastweights_tiles_are_missing() {
#if defined(FASTWEIGHTS_X86)
    unsigned a = 0, b = 0, c = 0, d = 0;
    constexpr unsigned amx_tile = 1u << 24;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & amx_tile)) return 0;
    return !__get_cpuid_count(0x1D, 0, &a, &b, &c, &d) || a == 0;  // a: the highest palette
#else
    return 0;
#endif
}

// 1 on success, 0 if memory ran out.
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
