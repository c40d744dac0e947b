// A tensor of a Python framework as DLPack describes it (version 1 of its C interface): read without Python's or torch's headers.
#pragma once

#include <cstdint>

namespace fastweights {

struct TensorView {
    void* data;
    std::int32_t device_type, device;
    std::int32_t dimensions;
    std::uint8_t type_code, bits;
    std::uint16_t lanes;
    std::int64_t *shape, *strides;
    std::uint64_t byte_offset;

    static constexpr std::int32_t kCpu = 1;
    static constexpr std::uint8_t kFloat = 2;
};

// The table of functions that a framework offers for its type of tensors.
struct TensorExchange {
    std::uint32_t major, minor;
    TensorExchange* older;
    void *allocate, *export_managed, *import_managed;
    int (*view)(void* object, TensorView* out);  // 0, or an exception of Python is set
    void* work_stream;
};

}  // namespace fastweights
