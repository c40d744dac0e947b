// One head of a call of kernel attention, with the map that the call names.
#pragma once

#include "attention/kernel_attention.h"
#include "features/elu.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

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

}  // namespace fastweights::FASTWEIGHTS_LEVEL
