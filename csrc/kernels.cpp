// All kernels of one instruction set: compiled once per set, see CMakeLists.txt.
#include "attention/attention_call.h"
#include "features/dpfp.h"
#include "features/elu.h"
#include "generation/attention_step.h"
#include "generation/linear_rows.h"
#include "generation/norm_rows.h"
#include "scan/backward.h"
#include "scan/chunk_backward.h"
#include "scan/rows.h"
#include "scan/short_backward.h"
#include "scan/short_forward.h"
#include "scan/step.h"

namespace fastweights::FASTWEIGHTS_LEVEL {
namespace {

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
    return by_rows<Real>(shape) ? kRowsAtOnce : tile_width<Real>(shape.key_dim);
}

template <class Real>
Index forward_tiles(const ScanShape& shape) {
    const Index columns = tile_columns<Real>(shape);
    return (shape.value_dim + columns - 1) / columns;
}

template <class Real>
Index forward_tile_size(const ScanShape& shape) {
    const Index padded = round_up(shape.key_dim, kLanes<Real>);
    if (single_step(shape)) return 4 * padded;
    if (by_rows<Real>(shape)) return (kRowsAtOnce + 4) * padded;
    return round_up(ForwardTile<Real, kWidestTile, 0, Decay::None>::memory_size(shape.key_dim), kLanes<Real>);
}

// A tile for each of some heads and tiles, and the rows of one head for a decay per channel.
template <class Real>
Index forward_workspace(const ScanForward& scan, Index heads, Index tiles) {
    const Index channels = scan.inputs.per_channel ? PostponedChannels<Real>::memory_size(scan.shape.key_dim) : 0;
    return (heads * tiles * forward_tile_size<Real>(scan.shape) + channels) * static_cast<Index>(sizeof(Real));
}

template <class Real, Decay Kind>
void forward_few_columns(const HeadForward<Real>& head, Real* workspace) {
    if (head.columns == 4) forward_rows<Real, 4, Kind>(head, workspace);
    if (head.columns == 3) forward_rows<Real, 3, Kind>(head, workspace);
    if (head.columns == 2) forward_rows<Real, 2, Kind>(head, workspace);
    if (head.columns == 1) forward_rows<Real, 1, Kind>(head, workspace);
}

// Heads and tiles that lie between each other in memory take turns: what the one has brought into the cache serves the others.
constexpr Index kStretch = 128;

// Tiles of a head for which rows of a decay per channel are prepared.
constexpr Index kWorthPreparing = 4;

template <class Real, Decay Kind>
void forward_tiles_of(const ScanForward& scan, Index batch, const Share& share, Real* workspace) {
    using Channels = PostponedChannels<Real>;
    const ScanShape& shape = scan.shape;
    const Index width = tile_columns<Real>(shape), size = forward_tile_size<Real>(shape), members = share.heads * share.tiles;
    const bool postponed = Kind == Decay::Channel && forward_tiles<Real>(shape) >= kWorthPreparing;
    const Index stretch = postponed ? Channels::kSteps : members == 1 ? shape.steps : kStretch;
    for (Index first = 0; first < shape.steps; first += stretch)
        for (Index i = 0; i < share.heads; ++i) {
            const Index count = std::min<Index>(stretch, shape.steps - first);
            const auto whole = head_of<Real>(scan, batch, share.first_head + i, 0, shape.value_dim);
            Channels channels(whole, workspace + members * size);
            if (postponed) channels.prepare(first, count);
            for (Index j = 0; j < share.tiles; ++j) {
                const Index column = (share.first_tile + j) * width;
                const auto part = head_of<Real>(scan, batch, share.first_head + i, column, std::min<Index>(width, shape.value_dim - column));
                with_form<Real>(shape.key_dim, part.columns, [&](auto vectors, auto held) {
                    ForwardTile<Real, vectors.value, held.value, Kind> tile(part, workspace + (i * share.tiles + j) * size, postponed ? &channels : nullptr);
                    if (first == 0) tile.begin();
                    tile.run(first, count);
                    if (first + stretch >= shape.steps) tile.end();
                });
            }
        }
}

template <class Real, Decay Kind>
void forward_kind(const ScanForward& scan, Index batch, const Share& share, Real* workspace) {
    const ScanShape& shape = scan.shape;
    if (!single_step(shape) && !by_rows<Real>(shape)) return forward_tiles_of<Real, Kind>(scan, batch, share, workspace);
    const Index width = tile_columns<Real>(shape);
    for (Index member = 0; member < share.heads * share.tiles; ++member) {
        const Index head = share.first_head + member / share.tiles, column = (share.first_tile + member % share.tiles) * width;
        const auto part = head_of<Real>(scan, batch, head, column, std::min<Index>(width, shape.value_dim - column));
        single_step(shape) ? forward_step<Real, Kind>(part, workspace) : forward_few_columns<Real, Kind>(part, workspace);
    }
}

template <class Real>
void forward(const ScanForward& scan, Index batch, const Share& share, void* workspace) {
    Real* const space = static_cast<Real*>(workspace);
    if (!scan.inputs.decay.data)
        forward_kind<Real, Decay::None>(scan, batch, share, space);
    else if (!scan.inputs.per_channel)
        forward_kind<Real, Decay::Head>(scan, batch, share, space);
    else
        forward_kind<Real, Decay::Channel>(scan, batch, share, space);
}

template <class Real>
BackwardSizes backward_sizes(const ScanShape& shape) {
    using Gradients = HeadGradients<Real>;
    const auto bytes = [](Index numbers) { return round_up(numbers * static_cast<Index>(sizeof(Real)), 64); };
    return {bytes(Gradients::state_size(shape)), bytes(Gradients::scratch_size(shape)), bytes(Gradients::between_size(shape, shape.steps)),
            Gradients::value_tiles(shape), Gradients::key_tiles(shape)};
}

// Heads of one batch row, segment by segment.
template <class Real>
void backward_heads(const ScanBackward& scan, Index batch, const Share& share, void* workspace) {
    const Index each = backward_sizes<Real>(scan.shape).state / static_cast<Index>(sizeof(Real));
    Real *const states = static_cast<Real*>(workspace), *const scratch = states + share.heads * each;
    for (Index segment = HeadGradients<Real>::segments(scan.shape) - 1; segment >= 0; --segment)
        for (Index i = 0; i < share.heads; ++i)
            HeadGradients<Real>(scan, batch, share.first_head + i, states + i * each, scratch, nullptr).run_segment(segment);
}

// One part of one head.
template <class Real>
void backward_part(const ScanBackward& scan, Index batch, Index head, BackwardPart part, Index tile, void* between, void* workspace) {
    Real* const state = static_cast<Real*>(workspace);
    Real* const scratch = state + backward_sizes<Real>(scan.shape).state / static_cast<Index>(sizeof(Real));
    HeadGradients<Real> gradients(scan, batch, head, state, scratch, static_cast<Real*>(between));
    switch (part) {
        case BackwardPart::Values: return gradients.values_tile(tile);
        case BackwardPart::Keys: return gradients.keys_tile(tile);
        case BackwardPart::Sums: return gradients.sums();
    }
}

template <class Real>
Index chunks_workspace(const ScanShape& shape, Index columns, bool channels) {
    return Workspace<Real>::size(shape.key_dim, columns, shape.checkpoint_every, channels) * static_cast<Index>(sizeof(Real));
}

template <class Real>
void backward_chunks(const ScanBackward& scan, Index batch, Index head, Index first, Index columns, void* workspace) {
    const auto part = head_of<Real>(scan, batch, head, first, columns);
    Real* const space = static_cast<Real*>(workspace);
    // The form for decay per channel takes lookups as well, with any decay.
    if (scan.inputs.per_channel || scan.inputs.lookups.data)
        BackwardTile<Real, Decay::Channel>(part, space).run();
    else
        BackwardTile<Real, Decay::Head>(part, space).run();
}

template <class Real>
Index short_forward_workspace(const ScanForward& scan) {
    const Index of_scan = forward_workspace<Real>(scan, 1, forward_tiles<Real>(scan.shape));
    Places<Real> places(nullptr);
    ShortForward<Real>(head_of<Real>(scan, 0, 0, 0, scan.shape.value_dim), places);
    return std::max<Index>(places.used * static_cast<Index>(sizeof(Real)), of_scan);
}

// The scan takes the place of the other form where numbers are not finite: in that, zero times NaN would reach steps that have none.
template <class Real>
void short_forward(const ScanForward& scan, Index batch, Index head, void* workspace) {
    Places<Real> places(static_cast<Real*>(workspace));
    if (!ShortForward<Real>(head_of<Real>(scan, batch, head, 0, scan.shape.value_dim), places).run())
        forward<Real>(scan, batch, {head, 1, 0, forward_tiles<Real>(scan.shape)}, workspace);
}

template <class Real>
Index short_backward_workspace(const ScanBackward& scan) {
    const BackwardSizes sizes = backward_sizes<Real>(scan.shape);
    Places<Real> places(nullptr);
    ShortBackward<Real>(head_of<Real>(scan, 0, 0, 0, scan.shape.value_dim), places);
    return std::max<Index>(places.used * static_cast<Index>(sizeof(Real)), sizes.state + sizes.scratch);
}

template <class Real>
void short_backward(const ScanBackward& scan, Index batch, Index head, void* workspace) {
    Places<Real> places(static_cast<Real*>(workspace));
    if (!ShortBackward<Real>(head_of<Real>(scan, batch, head, 0, scan.shape.value_dim), places).run())
        backward_heads<Real>(scan, batch, {head, 1, 0, 0}, workspace);
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

template <class Real>
constexpr Kernels kKernels = {forward_tiles<Real>, forward_workspace<Real>, forward<Real>, backward_sizes<Real>,
                              backward_heads<Real>, backward_part<Real>, chunks_workspace<Real>, backward_chunks<Real>,
                              short_forward_workspace<Real>, short_forward<Real>, short_backward_workspace<Real>, short_backward<Real>,
                              dpfp_workspace<Real>, dpfp<Real>, elu_plus_one<Real>,
                              attention_workspace<Real>, attention<Real>,    linear_rows<Real>,
                              norm_rows<Real>,     attention_step_workspace<Real>, attention_step<Real>};

}  // namespace

extern const Kernels float32_kernels, float64_kernels;
const Kernels float32_kernels = kKernels<float>;
const Kernels float64_kernels = kKernels<double>;

}  // namespace fastweights::FASTWEIGHTS_LEVEL
