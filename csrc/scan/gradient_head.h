// What the backward scan of one head, or of a tile of its value columns, reads and writes.
#pragma once

#include "scan/forward.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

template <class Real>
struct HeadBackward {
    const Real *queries, *keys, *lookups, *values, *erase, *write, *decay, *weights, *retrieved, *checkpoints, *grad_reads, *grad_final;
    Index query_step, key_step, lookup_step, value_step, erase_step, write_step, decay_step, grad_read_step;
    Real *grad_queries, *grad_keys, *grad_lookups, *grad_values, *grad_erase, *grad_write, *grad_decay, *grad_weights;
    Index grad_query_step, grad_key_step, grad_lookup_step, grad_value_step, grad_erase_step, grad_write_step, grad_decay_step;
    Index steps, key_dim, value_dim, columns, checkpoint_every;
    bool per_channel;
};

template <class Real>
HeadBackward<Real> head_of(const ScanBackward& scan, Index batch, Index head, Index first, Index columns) {
    const ScanShape& shape = scan.shape;
    const ScanInputs& in = scan.inputs;
    const Index index = batch * shape.heads + head, size = shape.value_dim * shape.key_dim, offset = first * shape.key_dim;
    const Index count = shape.steps > 0 ? (shape.steps - 1) / shape.checkpoint_every : 0;
    const auto part = [](const void* data, Index by) { return data ? static_cast<const Real*>(data) + by : nullptr; };
    const auto start_of = [&](const Sequence& sequence) { return sequence.data ? at<Real>(sequence, batch, head) : nullptr; };
    HeadBackward<Real> tile;
    tile.queries = start_of(in.queries), tile.query_step = in.queries.time;
    tile.keys = start_of(in.keys), tile.key_step = in.keys.time;
    tile.lookups = start_of(in.lookups), tile.lookup_step = in.lookups.time;
    tile.values = start_of(in.values) + first, tile.value_step = in.values.time;
    tile.erase = start_of(in.erase), tile.erase_step = in.erase.time;
    tile.write = start_of(in.write), tile.write_step = in.write.time;
    tile.decay = start_of(in.decay), tile.decay_step = in.decay.time;
    tile.weights = part(in.weights, index * size + offset);
    tile.retrieved = part(scan.retrieved, index * shape.steps * shape.value_dim + first);
    tile.checkpoints = part(scan.checkpoints, index * count * size + offset);
    tile.grad_reads = start_of(scan.grad_reads) + first, tile.grad_read_step = scan.grad_reads.time;
    tile.grad_final = part(scan.grad_final_weights, index * size + offset);
    tile.grad_queries = start_of(scan.grad_queries), tile.grad_query_step = scan.grad_queries.time;
    tile.grad_keys = start_of(scan.grad_keys), tile.grad_key_step = scan.grad_keys.time;
    tile.grad_lookups = start_of(scan.grad_lookups), tile.grad_lookup_step = scan.grad_lookups.time;
    tile.grad_values = start_of(scan.grad_values) + first, tile.grad_value_step = scan.grad_values.time;
    tile.grad_erase = start_of(scan.grad_erase), tile.grad_erase_step = scan.grad_erase.time;
    tile.grad_write = start_of(scan.grad_write), tile.grad_write_step = scan.grad_write.time;
    tile.grad_decay = start_of(scan.grad_decay), tile.grad_decay_step = scan.grad_decay.time;
    tile.grad_weights = scan.grad_weights ? static_cast<Real*>(scan.grad_weights) + index * size + offset : nullptr;
    tile.steps = shape.steps, tile.key_dim = shape.key_dim, tile.value_dim = shape.value_dim;
    tile.columns = columns, tile.checkpoint_every = shape.checkpoint_every, tile.per_channel = in.per_channel != 0;
    return tile;
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
