// The part of one head that the forward scan of a tile of value columns reads and writes.
#pragma once

#include "capi.h"
#include "simd/simd.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real>
FASTWEIGHTS_INLINE Real* at(const Sequence& sequence, Index batch, Index head) {
    return static_cast<Real*>(sequence.data) + batch * sequence.batch + head * sequence.head;
}

template <class Real>
struct HeadForward {
    const Real *queries, *keys, *lookups, *values, *erase, *write, *decay, *weights;
    Index query_step, key_step, lookup_step, value_step, erase_step, write_step, decay_step, read_step;
    Real *reads, *final_weights, *retrieved, *checkpoints;
    Index steps, key_dim, value_dim, columns, checkpoint_every;
};

template <class Real>
HeadForward<Real> head_of(const ScanForward& scan, Index batch, Index head, Index first, Index columns) {
    const ScanShape& shape = scan.shape;
    const ScanInputs& in = scan.inputs;
    const Index index = batch * shape.heads + head, size = shape.value_dim * shape.key_dim;
    const Index count = shape.steps > 0 ? (shape.steps - 1) / shape.checkpoint_every : 0;
    const auto part = [&](void* data, Index offset) { return data ? static_cast<Real*>(data) + offset : nullptr; };
    const Sequence& lookups = in.lookups.data ? in.lookups : in.keys;
    return {at<Real>(in.queries, batch, head),
            at<Real>(in.keys, batch, head),
            at<Real>(lookups, batch, head),
            at<Real>(in.values, batch, head) + first,
            at<Real>(in.erase, batch, head),
            at<Real>(in.write, batch, head),
            in.decay.data ? at<Real>(in.decay, batch, head) : nullptr,
            part(in.weights, index * size + first * shape.key_dim),
            in.queries.time,
            in.keys.time,
            lookups.time,
            in.values.time,
            in.erase.time,
            in.write.time,
            in.decay.time,
            scan.reads.time,
            at<Real>(scan.reads, batch, head) + first,
            part(scan.final_weights, index * size + first * shape.key_dim),
            part(scan.retrieved, index * shape.steps * shape.value_dim + first),
            part(scan.checkpoints, index * count * size + first * shape.key_dim),
            shape.steps,
            shape.key_dim,
            shape.value_dim,
            columns,
            shape.checkpoint_every};
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
