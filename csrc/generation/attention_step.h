// One head of one step of a layer, between its projections:
//
//   β = c σ(logit + b) ;   W ← W + β (v - W φ(k)) φ(k)ᵀ ;   y = scale · W φ(q)          without β:  W ← W + v φ(k)ᵀ
#pragma once

#include <cmath>

#include "features/dpfp.h"
#include "features/elu.h"
#include "scan/step.h"

namespace fastweights::FASTWEIGHTS_LEVEL {

enum StepMap : Index { kDpfpStep, kEluPlusOneStep };

// Mapped query and key, each with room for whole vectors, then what the map and the step need.
template <class Real>
Index attention_step_workspace(const AttentionStep& call) {
    const Index padded = round_up(call.feature_dim, kLanes<Real>);
    const Index map = call.map == kDpfpStep ? Dpfp<Real>::workspace_size(call.key_dim, call.parameter) : 0;
    return (6 * padded + round_up(map, kLanes<Real>)) * static_cast<Index>(sizeof(Real));
}

template <class Real>
void map_vector(const AttentionStep& call, const Real* x, Real* y, Real* workspace) {
    const auto normalise = static_cast<Normalise>(call.normalise);
    if (call.map == kDpfpStep)
        Dpfp<Real>(workspace, call.key_dim, call.parameter, normalise).forward({x, 0}, {y, 0}, 1);
    else
        EluPlusOne<Real>(call.key_dim, normalise).forward({x, 0}, {y, 0}, 1);
}

// `projected` are the queries, keys, values and logits of all heads of one sequence; `reads` their reads. False if the new weights
// or the reads are not finite.
template <class Real>
bool attention_step(const AttentionStep& call, const void* projected, void* reads, Index batch, Index head, void* workspace) {
    const Index padded = round_up(call.feature_dim, kLanes<Real>), size = call.value_dim * call.feature_dim;
    const Real* const queries = static_cast<const Real*>(projected);
    const Real* const keys = queries + call.heads * call.key_dim;
    const Real* const values = keys + call.heads * call.key_dim;
    const Real* const logits = values + call.heads * call.value_dim;
    Real *const query = static_cast<Real*>(workspace), *const key = query + padded, *const rest = key + padded;
    map_vector(call, queries + head * call.key_dim, query, rest + 4 * padded);
    map_vector(call, keys + head * call.key_dim, key, rest + 4 * padded);
    Real erase = 0, write = 1;
    if (call.has_strength) {
        const Real bias = call.strength_bias ? static_cast<const Real*>(call.strength_bias)[head] : Real(0);
        erase = write = Real(call.largest_strength) / (1 + std::exp(-(logits[head] + bias)));
    }
    const Index place = (batch * call.heads + head) * size;
    HeadForward<Real> step{};
    step.queries = query, step.keys = step.lookups = key, step.values = values + head * call.value_dim;
    step.erase = &erase, step.write = &write;
    step.weights = static_cast<const Real*>(call.weights) + place;
    step.final_weights = static_cast<Real*>(call.final_weights) + place;
    step.reads = static_cast<Real*>(reads) + head * call.value_dim;
    step.steps = 1, step.key_dim = call.feature_dim, step.value_dim = step.columns = call.value_dim;
    forward_step<Real, Decay::None>(step, rest);
    Real sum = 0;
    for (Index i = 0; i < call.value_dim; ++i) sum += step.reads[i] *= Real(call.read_scale);
    Vector<Real> sums = {};
    Index i = 0;
    for (; i + kLanes<Real> <= size; i += kLanes<Real>) sums += load(step.final_weights + i);
    for (; i < size; ++i) sum += step.final_weights[i];
    return std::isfinite(sum + sum_of_lanes<Real>(sums));
}

}  // namespace fastweights::FASTWEIGHTS_LEVEL
