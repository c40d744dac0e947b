// A single step on tensors as Python holds them. In generation, looking at them from Python takes longer than the step itself.
#include <initializer_list>

#include "capi.h"
#include "tensor_view.h"

extern "C" int fastweights_scan_forward(const fastweights::ScanForward*, std::int64_t element_bytes, std::int64_t threads);

namespace fastweights {
namespace {

using Index = std::int64_t;

// A tensor of the CPU with numbers of one type and as many dimensions as lengths, all of them as expected.
template <int Dimensions>
bool fits(const TensorView& tensor, const TensorView& like, const Index (&shape)[Dimensions]) {
    if (tensor.device_type != TensorView::kCpu || tensor.dimensions != Dimensions || tensor.byte_offset) return false;
    if (tensor.type_code != TensorView::kFloat || tensor.lanes != 1 || tensor.bits != like.bits) return false;
    for (int i = 0; i < Dimensions; ++i)
        if (tensor.shape[i] != shape[i]) return false;
    return true;
}

bool contiguous_rows(const TensorView& tensor) { return tensor.strides[3] == 1 || tensor.shape[3] == 1; }

bool contiguous(const TensorView& tensor) {
    Index expected = 1;
    for (int i = tensor.dimensions - 1; i >= 0; expected *= tensor.shape[i--])
        if (tensor.shape[i] != 1 && tensor.strides[i] != expected) return false;
    return true;
}

Sequence sequence(const TensorView& tensor) { return {tensor.data, tensor.strides[0], tensor.strides[1], tensor.strides[2]}; }

}  // namespace
}  // namespace fastweights

using fastweights::TensorExchange;
using fastweights::TensorView;

// 1 if the step was taken, 0 if the tensors do not fit each other or are not laid out as they usually are.
extern "C" __attribute__((visibility("default"))) int fastweights_step(
    const TensorExchange* exchange, std::int64_t threads, void* queries, void* keys, void* values, void* erase, void* write,
    void* weights, void* reads, void* final_weights, int has_decay, void* decay, int has_lookups, void* lookups) {
    using namespace fastweights;
    enum { kQueries, kKeys, kValues, kErase, kWrite, kWeights, kReads, kFinal, kDecay, kLookups, kTensors };
    void* const objects[kTensors] = {queries, keys, values, erase, write, weights, reads, final_weights, decay, lookups};
    TensorView tensors[kTensors];
    for (int i = 0; i < kTensors; ++i)
        if ((i != kDecay || has_decay) && (i != kLookups || has_lookups) && exchange->view(objects[i], &tensors[i])) return 0;
    const TensorView &key = tensors[kKeys], &value = tensors[kValues];
    if (key.dimensions != 4 || value.dimensions != 4 || (key.bits != 32 && key.bits != 64)) return 0;
    const Index b = key.shape[0], h = key.shape[1], t = key.shape[2], k = key.shape[3], v = value.shape[3];
    for (int i : {kQueries, kKeys})
        if (!fits(tensors[i], key, {b, h, t, k}) || !contiguous_rows(tensors[i])) return 0;
    for (int i : {kValues, kReads})
        if (!fits(tensors[i], key, {b, h, t, v}) || !contiguous_rows(tensors[i])) return 0;
    for (int i : {kErase, kWrite})
        if (!fits(tensors[i], key, {b, h, t})) return 0;
    for (int i : {kWeights, kFinal})
        if (!fits(tensors[i], key, {b, h, v, k}) || !contiguous(tensors[i])) return 0;
    const bool per_channel = has_decay && tensors[kDecay].dimensions == 4;
    if (has_decay && !per_channel && !fits(tensors[kDecay], key, {b, h, t})) return 0;
    if (per_channel && (!fits(tensors[kDecay], key, {b, h, t, k}) || !contiguous_rows(tensors[kDecay]))) return 0;
    if (has_lookups && (!fits(tensors[kLookups], key, {b, h, t, k}) || !contiguous_rows(tensors[kLookups]))) return 0;
    if (b * h * k * v == 0) return 0;
    const ScanInputs inputs{sequence(tensors[kQueries]), sequence(key), sequence(value), sequence(tensors[kErase]),
                            sequence(tensors[kWrite]), has_decay ? sequence(tensors[kDecay]) : Sequence{}, per_channel,
                            has_lookups ? sequence(tensors[kLookups]) : Sequence{}, tensors[kWeights].data};
    const ScanForward scan{{b, h, t, k, v, kChunk}, inputs, sequence(tensors[kReads]), tensors[kFinal].data, nullptr, nullptr};
    return fastweights_scan_forward(&scan, key.bits / 8, threads);
}
