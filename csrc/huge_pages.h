// Large results are new memory at every call, which the system hands out page by page as it is first written: with pages of
// 4 KiB this can take as long as computing what is written.
#pragma once

#include <cstdint>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace fastweights {

// Asks for pages of 2 MiB for what lies in [data, data + bytes), as far as it is not there yet. Only advice: nothing depends on it.
inline void ask_for_huge_pages([[maybe_unused]] void* data, [[maybe_unused]] std::int64_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
    constexpr std::uintptr_t page = 1 << 16, worth_asking = 4 << 20;  // no system has larger small pages
    const auto first = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
    const auto end = (reinterpret_cast<std::uintptr_t>(data) + static_cast<std::uintptr_t>(bytes)) / page * page;
    if (end > first + worth_asking) madvise(reinterpret_cast<void*>(first), end - first, MADV_HUGEPAGE);
#endif
}

}  // namespace fastweights
