"""What each write of a sequence did to the memory, for any rule and without a loop over steps where the rule is linear.

    M_t = W_{t-1} diag(g_t)                                 the memory as a write finds it
    c_t = b_t ∘ v_t - a_t M_t e_t,   W_t = M_t + c_t k_tᵀ   what it adds (memory/scan.py)
    v̄_t = M_t k_t,   r_t = W_t k_t = v̄_t + c_t |k_t|²       what its key retrieves before and after

M_t k_t is what the memory of step t - 1 gives for the query g_t ∘ k_t: one more scan, with keys shifted by one step as
its queries. Under attention normalisation both retrievals are divided, by z_{t-1}·k_t and by z_t·k_t.
"""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fastweights.memory.memory_norms import memory_norms
from fastweights.memory.normalise import AttentionNormalisation
from fastweights.memory.run import accumulate, at_last_writes
from fastweights.memory.state import FastWeightState
from fastweights.memory.traced_writes import TracedWrites, dot, norm, writes_by_scan, writes_by_steps
from fastweights.memory.write_inputs import WriteInputs, fill_padding
from fastweights.shapes import KeptWeights, PerStep, Queries, Values
from fastweights.update_rules import LinearRule, UpdateRule
from fastweights.update_rules.normalised_delta import reciprocal_or_zero

QUANTITIES: dict[str, str] = {
    "strength": "β, the write strength: the gate of this name, or else b of the operator",
    "key_square": "|k|²",
    "key_sum": "Σ_j |k_j|",
    "balance": "B = (a/b) Σ_j e_j, removed over written weight of Eq. 51; 1 is the paper's goal",
    "landing": "λ = <r - v̄, v_new - v̄> / |v_new - v̄|²; 1 if the write does what Eq. 22 says",
    "miss": "|r - v_new| / |v_new - v̄|",
    "eigenvalue": "a e·k, which the write takes from the memory along its key; above 2 the memory diverges",
    "value": "|v|",
    "retrieved": "|v̄|",
    "new_value": "|v_new| with v_new = β v + (1 - β) v̄ (Eq. 22)",
    "stored": "|r|, what the key retrieves right after the write",
    "cosine": "cos(v̄, v)",
    "contrast": "|v - v̄| / (|v| + |v̄|)",
    "error_before": "|v̄ - v| / |v|",
    "error_after": "|r - v| / |v|",
    "write": "|b ∘ v| |k|",
    "remove": "|a M e| |k|; of a rule that is not linear, |W + β v kᵀ - W'|: all that a step takes away",
    "weights": "|W| after the write",
    "normaliser": "|z| after the write",
    "overlap": "z·q",
    "read": "|y|",
}
"""What is traced at every write, with its definition. NaN where it is not defined: padding, no z, no read."""

LEAST_REQUEST = 1e-6
"""λ and the miss divide by |v_new - v̄|; where that is less than this share of |v|, nothing was asked for."""


class Observation(NamedTuple):
    """A sequence that was written into a memory, as `run_rule` takes it; queries and reads only if they went along."""

    rule: UpdateRule
    writes: WriteInputs
    before: FastWeightState
    attention_normalisation: AttentionNormalisation | None = None
    queries: Queries | None = None
    reads: Values | None = None
    backend: str = "auto"


@torch.no_grad()
def trace(observation: Observation, keep: Sequence[int] = ()) -> tuple[dict[str, PerStep], KeptWeights]:
    """Every quantity of QUANTITIES for every write, and the weights after the writes numbered in `keep`."""
    observation = _without_scales(observation)
    rule, attention, state = observation.rule, observation.attention_normalisation, observation.before
    divides = attention is not None and attention.retrieval
    rule = rule.with_attention_normalisation() if divides else rule
    writes = observation.writes.of_single_writes(rule).without_padding()
    writes = writes.to(torch.promote_types(writes.keys.dtype, torch.float32))
    strengths = _strengths(rule, writes)
    if isinstance(rule, LinearRule):
        done = writes_by_scan(rule, writes, state, observation.backend, keep)
    else:
        done = writes_by_steps(rule, writes, state, strengths, keep)
    found = _of_writes(writes, done, strengths, divides or rule.needs_normaliser)
    found |= _of_reads(observation, rule.writes_per_step, writes, done)
    if writes.mask is not None:
        found = {name: fill_padding(x, writes.mask, torch.nan) for name, x in found.items()}
    return {name: found[name] for name in QUANTITIES}, done.kept


def _without_scales(observation: Observation) -> Observation:
    """Keys whose scale is kept apart as what they stand for, in float64: exp(s_t) k_t, and exp(M) times the memory."""
    writes, state = observation.writes, observation.before
    if writes.log_scales is None:
        return observation
    assert state.log_scale is not None
    scale = state.log_scale.double().exp()[..., None]
    keys = writes.keys.double() * writes.log_scales.double().exp()[..., None]
    normaliser = None if state.normaliser is None else scale * state.normaliser
    return observation._replace(
        writes=writes.to(torch.float64)._replace(keys=keys, log_scales=None),
        before=FastWeightState(scale[..., None] * state.weights, normaliser, state.steps),
        queries=None if observation.queries is None else observation.queries.double(),
        reads=None if observation.reads is None else observation.reads.double(),
    )


def _strengths(rule: UpdateRule, writes: WriteInputs) -> Tensor:
    """β: the gate of this name, else b of the operator (one number, or one per component of the value), else one."""
    ones = torch.ones_like(writes.keys[..., 0])
    if "beta" in (gate.label for gate in rule.gates):
        return writes.gates["beta"]
    return rule.coefficients(writes.keys, writes.gates, ones).write if isinstance(rule, LinearRule) else ones


def _of_writes(writes: WriteInputs, done: TracedWrites, strengths: Tensor, divides: bool) -> dict[str, Tensor]:
    """All that follows from v, β, what the key retrieved and what the write changed."""
    values, square = writes.values, norm(writes.keys).square()
    strengths = strengths if strengths.dim() == 4 else strengths[..., None]
    retrieved, moved = done.found, square[..., None] * done.change
    stored = retrieved + moved
    if divides:
        assert done.overlaps is not None
        before, after = reciprocal_or_zero(done.overlaps), reciprocal_or_zero(done.overlaps + square)
        retrieved, stored = before[..., None] * retrieved, after[..., None] * stored
        # r - v̄ without the difference of two numbers that are nearly equal after many steps.
        moved = (after * square)[..., None] * (done.change - retrieved)
        moved = torch.where((before == 0)[..., None], stored - retrieved, moved)
    difference = values - retrieved
    wanted, missing = strengths * difference, torch.full_like(square, torch.nan)
    size, retrieved_size, error, asked = (norm(x) for x in (values, retrieved, difference, wanted))
    asked = asked.masked_fill(asked <= LEAST_REQUEST * size, torch.nan)
    return {
        "strength": strengths.mean(dim=-1),
        "key_square": square,
        "key_sum": writes.keys.abs().sum(dim=-1),
        "balance": missing if done.balance is None else done.balance,
        "landing": dot(moved, wanted) / asked.square(),
        "miss": norm(moved - wanted) / asked,
        "eigenvalue": missing if done.eigenvalue is None else done.eigenvalue,
        "value": size,
        "retrieved": retrieved_size,
        "new_value": norm(retrieved + wanted),
        "stored": norm(stored),
        "cosine": dot(retrieved, values) / (retrieved_size * size),
        "contrast": error / (size + retrieved_size),
        "error_before": error / size,
        "error_after": norm(stored - values) / size,
        "write": done.written,
        "remove": done.removed,
        "weights": done.weights,
    }


def _of_reads(
    observation: Observation, writes_per_step: int, writes: WriteInputs, done: TracedWrites
) -> dict[str, Tensor]:
    """|z| after every write; z·q and |y| after the last write of every step, where there was a read."""
    queries, reads, keys, z = observation.queries, observation.reads, writes.keys, observation.before.normaliser
    missing = torch.full_like(keys[..., 0], torch.nan)
    found = {"normaliser": missing, "overlap": missing, "read": missing}
    last = slice(writes_per_step - 1, None, writes_per_step)
    if z is not None:
        assert done.overlaps is not None
        ones = torch.ones_like(keys[..., :1])
        found["normaliser"] = memory_norms(z[:, :, None], keys, ones, done.overlaps[..., None], done.decay)
    if z is not None and queries is not None:
        along = at_last_writes(queries.to(keys.dtype), writes_per_step)
        found["overlap"] = missing.clone()
        found["overlap"][:, :, last] = accumulate(along, keys, z, None, done.decay, observation.backend)[0][:, :, last]
    if reads is not None:
        found["read"] = missing.clone()
        found["read"][:, :, last] = norm(reads.to(keys.dtype))
    return found
