// All kernels of one instruction set: compiled once per set, see CMakeLists.txt.
#include "features/dpfp.h"
#include "features/elu.h"
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
    const Index numbers = by_rows<Real>(shape) ? (kRowsAtOnce + 3) * padded : shape.key_dim * kWidestTile * kLanes<Real>;
    return numbers * static_cast<Index>(sizeof(Real));
}

template <class Real, bool Decay>
void forward_tile(const HeadForward<Real>& head, bool rows, Real* workspace) {
    constexpr Index lanes = kLanes<Real>;
    if (rows) {
        if (head.columns == 4) forward_rows<Real, 4, Decay>(head, workspace);
        if (head.columns == 3) forward_rows<Real, 3, Decay>(head, workspace);
        if (head.columns == 2) forward_rows<Real, 2, Decay>(head, workspace);
        if (head.columns == 1) forward_rows<Real, 1, Decay>(head, workspace);
    } else if (head.columns <= lanes) {
        forward_columns<Real, 1, Decay>(head, workspace);
    } else if (head.columns <= 2 * lanes) {
        forward_columns<Real, 2, Decay>(head, workspace);
    } else {
        forward_columns<Real, kWidestTile, Decay>(head, workspace);
    }
}

template <class Real>
void forward(const ScanForward& scan, Index batch, Index head, Index tile, void* workspace) {
    const Index width = tile_columns<Real>(scan.shape), first = tile * width;
    const auto part = head_of<Real>(scan, batch, head, first, std::min<Index>(width, scan.shape.value_dim - first));
    const bool rows = by_rows<Real>(scan.shape);
    Real* const space = static_cast<Real*>(workspace);
    if (single_step(scan.shape))
        part.decay ? forward_step<Real, true>(part, space) : forward_step<Real, false>(part, space);
    else
        part.decay ? forward_tile<Real, true>(part, rows, space) : forward_tile<Real, false>(part, rows, space);
}

template <class Real>
Index backward_workspace(const ScanShape& shape, Index columns) {
    return Workspace<Real>::size(shape.key_dim, columns, shape.checkpoint_every) * static_cast<Index>(sizeof(Real));
}

template <class Real>
void backward(const ScanBackward& scan, Index batch, Index head, Index first, Index columns, void* workspace) {
    const auto part = head_of<Real>(scan, batch, head, first, columns);
    Real* const space = static_cast<Real*>(workspace);
    part.decay ? BackwardTile<Real, true>(part, space).run() : BackwardTile<Real, false>(part, space).run();
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
    const Dpfp<Real> map(static_cast<Real*>(workspace), call.rows.input_dim, call.shifts, call.rows.divide_by_sum != 0);
    map_rows<Real>(map, call.rows, batch, head, first, count);
}

template <class Real>
void elu_plus_one(const FeatureRows& call, Index batch, Index head, Index first, Index count) {
    map_rows<Real>(EluPlusOne<Real>(call.input_dim, call.divide_by_sum != 0), call, batch, head, first, count);
}

template <class Real>
constexpr Kernels kKernels = {forward_tiles<Real>, forward_workspace<Real>, forward<Real>, backward_workspace<Real>,
                              backward<Real>,      dpfp_workspace<Real>,    dpfp<Real>,    elu_plus_one<Real>};

}  // namespace

extern const Kernels float32_kernels, float64_kernels;
const Kernels float32_kernels = kKernels<float>;
const Kernels float64_kernels = kKernels<double>;

}  // namespace fastweights::FASTWEIGHTS_LEVEL
