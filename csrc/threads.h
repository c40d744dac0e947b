// Threads of the OpenMP runtime that torch uses too, and memory for what each of them does.
//
// Which thread does what never changes a result: a task is computed by one thread from start to end.
#pragma once

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdlib>

#if defined(_OPENMP)
#include <omp.h>
#endif

namespace fastweights {

using Index = std::int64_t;

// The OpenMP runtime's threads do not survive a fork, and waiting for them would hang: a forked process works alone.
inline std::atomic<bool> forked{false};
[[maybe_unused]] inline const int watch_forks = pthread_atfork(nullptr, nullptr, [] { forked.store(true); });

constexpr double kWorthAThread = 200e3;  // multiply-adds, some ten microseconds: waking a thread costs about as much

inline Index threads_for(Index wanted, Index tasks, double work) {
#if defined(_OPENMP)
    const Index useful = static_cast<Index>(work / kWorthAThread) + 1;
    const Index threads = std::min({wanted, tasks, useful});
    return forked.load() || omp_in_parallel() || threads < 1 ? 1 : threads;
#else
    (void)wanted, (void)tasks, (void)work;
    return 1;
#endif
}

struct FreeAtEnd {
    void* memory;
    ~FreeAtEnd() { std::free(memory); }
};

inline void* allocate(Index bytes) { return std::aligned_alloc(64, static_cast<std::size_t>(bytes > 0 ? (bytes + 63) / 64 * 64 : 64)); }

// Calls work(task, workspace) for every task; false if there is no memory for the workspaces.
template <class Work>
bool parallel_for(Index tasks, Index threads, Index workspace_bytes, Work work) {
    const Index each = (workspace_bytes + 63) / 64 * 64;
    char* const memory = static_cast<char*>(allocate(threads * each));
    if (!memory) return false;
    const FreeAtEnd guard{memory};
#if defined(_OPENMP)
    if (threads > 1) {
#pragma omp parallel for num_threads(threads) schedule(dynamic, 1)
        for (Index task = 0; task < tasks; ++task) work(task, memory + omp_get_thread_num() * each);
        return true;
    }
#endif
    for (Index task = 0; task < tasks; ++task) work(task, memory);
    return true;
}

}  // namespace fastweights
