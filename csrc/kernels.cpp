// All kernels of one instruction set: compiled once per set, see CMakeLists.txt.
#include "attention/kernel_attention.h"
#include "features/dpfp.h"
#include "features/elu.h"
#include "generation/attention_step.h"
#include "generation/linear_rows.h"
#include "generation/norm_rows.h"
#include "scan/backward.h"
#include "scan/rows.h"
#include "scan/step.h"

namespace fastweights::FASTWEIGHTS_LEVEL {
namespace {

// 32 float columns fill the multiply-add units and leave registers for everything else; wider tiles spill.
#if FASTWEIGHTS_VECTOR_BYTES == 64
constexpr int kWidestTile = 2;
#else
constexpr int kWidestTile = 4;
#endif
constexpr Index kFewColumns = 4;

// A single step is too short to be cut into tiles.
bool single_step(const ScanShape& shape) { return shape.steps == 1; }

template <class Real>
bool by_rows(const ScanShape& shape) {
    return shape.value_dim <= kFewColumns;
}

template <class Real>
Index tile_columns(const ScanShape& shape) {
    if (single_step(shape)) return shape.value_dim;
    return by_rows<Real>(shape) ? kRowsAtOnce : kWidestTile * kLanes<Real>;
}

template <class Real>
Index forward_tiles(const ScanShape& shape) {
    const Index columns = tile_columns<Real>(shape);
    return (shape.value_dim + columns - 1) / columns;
}

template <class Real>
Index forward_workspace(const ScanShape& shape) {
    const Index padded = round_up(shape.key_dim, kLanes<Real>);
    if (single_step(shape)) return 4 * padded * static_cast<Index>(sizeof(Real));
    const Index numbers = by_rows<Real>(shape) ? (kRowsAtOnce + 4) * padded : shape.key_dim * (kWidestTile * kLanes<Real> + 1);
    return numbers * static_cast<Index>(sizeof(Real));
}

template <class Real, Decay Kind>
void forward_tile(const HeadForward<Real>& head, bool rows, Real* workspace) {
    constexpr Index lanes = kLanes<Real>;
    if (rows) {
        if (head.columns == 4) forward_rows<Real, 4, Kind>(head, workspace);
        if (head.columns == 3) forward_rows<Real, 3, Kind>(head, workspace);
        if (head.columns == 2) forward_rows<Real, 2, Kind>(head, workspace);
        if (head.columns == 1) forward_rows<Real, 1, Kind>(head, workspace);
    } else if (head.columns <= lanes) {
        forward_columns<Real, 1, Kind>(head, workspace);
    } else if (head.columns <= 2 * lanes) {
        forward_columns<Real, 2, Kind>(head, workspace);
    } else {
        forward_columns<Real, kWidestTile, Kind>(head, workspace);
    }
}

template <class Real, Decay Kind>
void forward_kind(const ScanForward& scan, Index batch, Index head, Index tile, Real* workspace) {
    const Index width = tile_columns<Real>(scan.shape), first = tile * width;
    const auto part = head_of<Real>(scan, batch, head, first, std::min<Index>(width, scan.shape.value_dim - first));
    if (single_step(scan.shape))
        forward_step<Real, Kind>(part, workspace);
    else
        forward_tile<Real, Kind>(part, by_rows<Real>(scan.shape), workspace);
}

template <class Real>
void forward(const ScanForward& scan, Index batch, Index head, Index tile, void* workspace) {
    Real* const space = static_cast<Real*>(workspace);
    if (!scan.inputs.decay.data)
        forward_kind<Real, Decay::None>(scan, batch, head, tile, space);
    else if (!scan.inputs.per_channel)
        forward_kind<Real, Decay::Head>(scan, batch, head, tile, space);
    else
        forward_kind<Real, Decay::Channel>(scan, batch, head, tile, space);
}

template <class Real>
Index backward_workspace(const ScanShape& shape, Index columns, bool channels) {
    return Workspace<Real>::size(shape.key_dim, columns, shape.checkpoint_every, channels) * static_cast<Index>(sizeof(Real));
}

template <class Real>
void backward(const ScanBackward& scan, Index batch, Index head, Index first, Index columns, void* workspace) {
    const auto part = head_of<Real>(scan, batch, head, first, columns);
    Real* const space = static_cast<Real*>(workspace);
    // The form for decay per channel takes lookups as well, with any decay.
    if (scan.inputs.per_channel || scan.inputs.lookups.data)
        BackwardTile<Real, Decay::Channel>(part, space).run();
    else
        part.decay ? BackwardTile<Real, Decay::Head>(part, space).run() : BackwardTile<Real, Decay::None>(part, space).run();
}

template <class Real, class Map>
void map_rows(const Map& map, const FeatureRows& call, Index batch, Index head, Index first, Index count) {
    for (Index done = 0; done < count; done += Map::kTogether) {
        const Index some = std::min<Index>(Map::kTogether, count - done);
        const auto rows = [&](const Sequence& sequence) {
            return Rows<Real>{at<Real>(sequence, batch, head) + (first + done) * sequence.time, sequence.time};
        };
        const Rows<Real> x = rows(call.inputs), y = rows(call.features);
        if (call.grad_inputs.data)
            map.backward({x.data, x.stride}, {y.data, y.stride}, rows(call.grad_inputs), some);
        else
            map.forward({x.data, x.stride}, y, some);
    }
}

template <class Real>
Index dpfp_workspace(const DpfpRows& call) {
    return Dpfp<Real>::workspace_size(call.rows.input_dim, call.shifts) * static_cast<Index>(sizeof(Real));
}

template <class Real>
void dpfp(const DpfpRows& call, Index batch, Index head, Index first, Index count, void* workspace) {
    const Dpfp<Real> map(static_cast<Real*>(workspace), call.rows.input_dim, call.shifts, static_cast<Normalise>(call.rows.normalise));
    map_rows<Real>(map, call.rows, batch, head, first, count);
}

template <class Real>
void elu_plus_one(const FeatureRows& call, Index batch, Index head, Index first, Index count) {
    map_rows<Real>(EluPlusOne<Real>(call.input_dim, static_cast<Normalise>(call.normalise)), call, batch, head, first, count);
}

enum AttentionMap : Index { kDpfp, kEluPlusOne, kFavor };

template <class Real>
Index map_workspace(const AttentionCall& call) {
    if (call.map == kDpfp) return Dpfp<Real>::workspace_size(call.shape.input_dim, call.parameter);
    return call.map == kFavor ? Favor<Real>::workspace_size(call.shape.input_dim, call.parameter) : 0;
}

// The map's workspace, in whole vectors, then the attention's.
template <class Real>
Index attention_workspace(const AttentionCall& call) {
    const Index own = KernelAttention<Real, Favor<Real>>::workspace_size(call.shape);
    return (round_up(map_workspace<Real>(call), kLanes<Real>) + own) * static_cast<Index>(sizeof(Real));
}

template <class Real, class Map>
void attend(const AttentionCall& call, Index batch, Index head, const Map& map, Real* workspace) {
    KernelAttention<Real, Map> attention(call, batch, head, map, workspace);
    call.grad_reads.data ? attention.backward() : attention.forward();
}

template <class Real>
void attention(const AttentionCall& call, Index batch, Index head, void* workspace) {
    const Index dim = call.shape.input_dim;
    Real* const space = static_cast<Real*>(workspace);
    Real* const rest = space + round_up(map_workspace<Real>(call), kLanes<Real>);
    if (call.map == kDpfp) {
        const Dpfp<Real> map(space, dim, call.parameter, Normalise::None);
        attend<Real>(call, batch, head, UnscaledMap<Real, Dpfp<Real>>(map), rest);
    } else if (call.map == kEluPlusOne) {
        attend<Real>(call, batch, head, UnscaledMap<Real, EluPlusOne<Real>>(EluPlusOne<Real>(dim, Normalise::None)), rest);
    } else {
        const Rows<const Real> rows{static_cast<const Real*>(call.rows), call.row};
        const Rows<const Real> columns{static_cast<const Real*>(call.columns), call.column};
        attend<Real>(call, batch, head, Favor<Real>(space, dim, call.parameter, rows, columns, Real(call.squared_factor)), rest);
    }
}

template <class Real>
constexpr Kernels kKernels = {forward_tiles<Real>, forward_workspace<Real>, forward<Real>, backward_workspace<Real>,
                              backward<Real>,      dpfp_workspace<Real>,    dpfp<Real>,    elu_plus_one<Real>,
                              attention_workspace<Real>, attention<Real>,    linear_rows<Real>,
                              norm_rows<Real>,     attention_step_workspace<Real>, attention_step<Real>};

}  // namespace

extern const Kernels float32_kernels, float64_kernels;
const Kernels float32_kernels = kKernels<float>;
const Kernels float64_kernels = kKernels<double>;

}  // namespace fastweights::FASTWEIGHTS_LEVEL
