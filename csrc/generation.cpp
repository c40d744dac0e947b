// Generation, one word after another: linear layers of few rows, and a step of a whole layer in two calls.
#include <atomic>

#include "capi.h"
#include "levels.h"
#include "threads.h"

namespace fastweights {
namespace {

constexpr Index kOutputsTogether = 64;

// 1 on success, 0 if memory ran out: the meaning of all numbers that are returned here.
int linear(const LinearRows& call, Index element_bytes, Index wanted_threads) {
    const Kernels& kernels = kernels_for(element_bytes);
    const Index tasks = (call.outputs + kOutputsTogether - 1) / kOutputsTogether;
    const double work = static_cast<double>(call.rows * call.inner) * static_cast<double>(call.outputs);
    return parallel_for(tasks, threads_for(wanted_threads, tasks, work), 0, [&](Index task, void*) {
        const Index first = task * kOutputsTogether;
        kernels.linear(call, first, std::min(kOutputsTogether, call.outputs - first));
    });
}

// `outputs` numbers of every row of x, which has `inner`; all contiguous.
LinearRows contiguous(Index rows, Index inner, Index outputs, void* x, void* weights, void* bias, void* y, bool relu = false) {
    return {rows, inner, outputs, x, weights, bias, y, inner, inner, outputs, relu};
}

}  // namespace
}  // namespace fastweights

using namespace fastweights;

#define FASTWEIGHTS_EXPORT __attribute__((visibility("default")))

extern "C" {

FASTWEIGHTS_EXPORT int fastweights_linear(const LinearRows* call, std::int64_t element_bytes, std::int64_t threads) {
    return linear(*call, element_bytes, threads);
}

// 2 if the new weights or reads are not finite.
FASTWEIGHTS_EXPORT int fastweights_attention_step(const AttentionStep* call, std::int64_t element_bytes, std::int64_t threads) {
    const Kernels& kernels = kernels_for(element_bytes);
    const Index values = call->heads * call->value_dim;
    const Index projected = 2 * call->heads * call->key_dim + values + (call->has_strength ? call->heads : 0);
    char* const memory = static_cast<char*>(allocate(call->batch * (projected + values) * element_bytes));
    if (!memory) return 0;
    const FreeAtEnd guard{memory};
    char* const reads = memory + call->batch * projected * element_bytes;
    if (!linear(contiguous(call->batch, call->model_dim, projected, call->x, call->projection, nullptr, memory), element_bytes, threads))
        return 0;
    std::atomic<bool> finite{true};
    const Index tasks = call->batch * call->heads;
    const double work = 3.0 * static_cast<double>(tasks * call->feature_dim) * static_cast<double>(call->value_dim);
    const Index workspace = kernels.attention_step_workspace(*call);
    const bool done = parallel_for(tasks, threads_for(threads, tasks, work), workspace, [&](Index task, void* space) {
        const Index batch = task / call->heads, offset = batch * projected * element_bytes;
        char* const read = reads + batch * values * element_bytes;
        if (!kernels.attention_step(*call, memory + offset, read, batch, task % call->heads, space)) finite.store(false);
    });
    if (!done) return 0;
    if (!finite.load()) return 2;
    return linear(contiguous(call->batch, values, call->model_dim, reads, call->output, nullptr, call->y), element_bytes, threads);
}

FASTWEIGHTS_EXPORT int fastweights_feed_forward_step(const FeedForwardStep* call, std::int64_t element_bytes, std::int64_t threads) {
    const Kernels& kernels = kernels_for(element_bytes);
    const Index rows = call->batch, model = call->model_dim, hidden = call->hidden_dim, whole = rows * model * element_bytes;
    char* const memory = static_cast<char*>(allocate(3 * whole + rows * hidden * element_bytes));
    if (!memory) return 0;
    const FreeAtEnd guard{memory};
    char *const sum = memory, *const normed = memory + whole, *const last = normed + whole, *const inner = last + whole;
    void *const weight = call->pre_norm ? nullptr : call->attention_weight, *const input = call->pre_norm ? normed : sum;
    kernels.norm({rows, model, call->x, call->read, weight, call->attention_bias, sum, call->attention_epsilon});
    if (call->pre_norm) kernels.norm({rows, model, sum, nullptr, call->weight, call->bias, normed, call->epsilon});
    if (!linear(contiguous(rows, model, hidden, input, call->first, call->first_bias, inner, true), element_bytes, threads)) return 0;
    if (!linear(contiguous(rows, hidden, model, inner, call->second, call->second_bias, last), element_bytes, threads)) return 0;
    kernels.norm({rows, model, sum, last, call->pre_norm ? nullptr : call->weight, call->bias, call->y, call->epsilon});
    return 1;
}

}  // extern "C"
