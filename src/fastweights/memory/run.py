"""Running any update rule over a sequence: by the operator where the rule is linear, step by step where it is not."""

from dataclasses import replace

import torch
from torch import Tensor
from torch.nn.functional import pad

from fastweights.memory.choose import STEP_BY_STEP
from fastweights.memory.normalise import AttentionNormalisation
from fastweights.memory.packing import decay_at_boundaries, steps_after
from fastweights.memory.rescaling import Rescaling
from fastweights.memory.scan import fast_weight_scan
from fastweights.memory.state import FastWeightState
from fastweights.memory.write_inputs import WriteInputs, fill_padding, like
from fastweights.shapes import Keys, Normaliser, PerKey, PerStep, Queries, Steps, Values, Weights
from fastweights.update_rules import Coefficients, LinearRule, UpdateRule
from fastweights.update_rules.normalised_delta import reciprocal_or_zero


def run_rule(
    rule: UpdateRule,
    writes: WriteInputs,
    queries: Queries,
    state: FastWeightState,
    *,
    attention_normalisation: AttentionNormalisation | None = None,
    causal: bool = True,
    backend: str = "auto",
) -> tuple[Values, FastWeightState]:
    """Write a sequence into the memory and read it: after each step, or only at the end if not `causal`.

    With attention normalisation the state must hold a normaliser; it is carried on and divides every read. Gates that
    the rule does not name are ignored.
    """
    if attention_normalisation is not None and attention_normalisation.retrieval:
        rule = rule.with_attention_normalisation()
    if (attention_normalisation is not None or rule.needs_normaliser) and state.normaliser is None:
        raise ValueError(f"{type(rule).__name__} with attention normalisation needs a state with a normaliser")
    if missing := [gate.label for gate in rule.gates if gate.label not in writes.gates]:
        raise ValueError(f"{type(rule).__name__} needs the gates {', '.join(missing)}, got {sorted(writes.gates)}")
    results, steps = writes.values.dtype, _steps_after(rule, writes, state)
    given = results if writes.keys.dtype == queries.dtype == results else torch.promote_types(results, torch.float32)
    # In at least float32, so that coefficients such as a decay of 0.99 are not rounded to bfloat16.
    writes = writes.of_single_writes(rule).without_padding().to(torch.promote_types(writes.keys.dtype, torch.float32))
    queries = queries.to(writes.keys.dtype)
    # A non-causal read uses only the final memory, so queries may have any length and the keys stand in for them.
    along = at_last_writes(queries, rule.writes_per_step) if causal else writes.keys
    if isinstance(rule, LinearRule):
        reads, overlaps, after = _scan(rule, writes, along, state, backend, given)
    else:
        reads, overlaps, after = _steps(rule, writes, along, state, backend)
    if causal:
        last = slice(rule.writes_per_step - 1, None, rule.writes_per_step)
        reads, overlaps = reads[:, :, last], None if overlaps is None else overlaps[:, :, last]
    else:
        reads = rule.read(after.weights, queries.to(after.weights.dtype)).to(queries.dtype)
        overlaps = None if after.normaliser is None else _dot(after.normaliser[:, :, None], queries)
    if attention_normalisation is not None and overlaps is not None:
        reads = reads * reciprocal_or_zero(overlaps)[..., None]
    return reads.to(results), replace(after, steps=steps)


def _scan(
    rule: LinearRule,
    writes: WriteInputs,
    queries: Queries,
    state: FastWeightState,
    backend: str,
    given: torch.dtype,
) -> tuple[Values, PerStep | None, FastWeightState]:
    """Reads W_t q_t, overlaps z_t · q_t if there is a z, and the final state, by the operator.

    Queries, keys and values came in the precision `given`, which a GPU loads and multiplies faster.
    """
    scale = Rescaling.of(writes.log_scales, state.log_scale, writes.boundaries)
    if scale is not None and not rule.follows_scale:
        raise ValueError(f"{type(rule).__name__} depends on the length of keys and takes none with a scale apart")
    overlaps, normaliser, before = None, state.normaliser, None
    if normaliser is not None and rule.needs_normaliser:
        before = _overlaps_before(writes, normaliser, scale, backend)
    erase, write, decay, lookups = coefficients_of(rule, writes, before)
    if before is not None and decay is not None:
        raise ValueError(f"{type(rule).__name__}: a rule that divides by the normaliser cannot have a decay of its own")
    if scale is not None:
        erase, write = erase * scale.write / scale.decay, write * like(scale.write, write)
        decay = scale.decay if decay is None else like(scale.decay, decay) * decay
    if writes.boundaries is not None:
        decay = decay_at_boundaries(writes.boundaries, writes.keys, decay)
    if normaliser is not None:
        overlaps, normaliser = accumulate(queries, writes.keys, normaliser, scale, decay, backend)
    keys, values = writes.keys, writes.values
    if write.dim() == 4:  # b ∘ v is what the operator writes
        values, write = write * values, torch.ones_like(erase)
    elif keys.device.type != "cpu" and lookups is None:
        queries, keys, values = (x.to(given) for x in (queries, keys, values))
    reads, weights = fast_weight_scan(
        queries, keys, values, erase, write, state.weights, decay, lookups, backend=backend
    )
    return reads, overlaps, _after(state, weights, normaliser, scale)


def coefficients_of(rule: LinearRule, writes: WriteInputs, overlaps: PerStep | None) -> Coefficients:
    """The coefficients of the rule; those of padded steps leave the weights as they are."""
    erase, write, decay, lookups = rule.coefficients(writes.keys, writes.gates, overlaps)
    if writes.mask is None:
        return Coefficients(erase, write, decay, lookups)
    return Coefficients(
        fill_padding(erase, writes.mask, 0.0),
        fill_padding(write, writes.mask, 0.0),
        None if decay is None else fill_padding(decay, writes.mask, 1.0),
        None if lookups is None else fill_padding(lookups, writes.mask, 0.0),
    )


def _steps(
    rule: UpdateRule, writes: WriteInputs, queries: Queries, state: FastWeightState, backend: str
) -> tuple[Values, PerStep | None, FastWeightState]:
    """The same step by step, straight from the definition of the rule."""
    if backend not in ("auto", STEP_BY_STEP):
        raise ValueError(
            f"backend: {backend!r} cannot run {type(rule).__name__}, which is not linear in W; "
            f"possible: auto, {STEP_BY_STEP}"
        )
    if writes.log_scales is not None:
        raise ValueError(f"{type(rule).__name__} is not linear in W and takes no keys with a scale apart")
    weights, normaliser, dtype = state.weights, state.normaliser, writes.values.dtype
    (keys, values, gates, *_), queries = writes.to(weights.dtype), queries.to(weights.dtype)
    reads: list[Tensor] = [values[:, :, :0]]
    overlaps: list[Tensor] = [values[:, :, :0, 0]]
    for t in range(keys.shape[2]):
        if writes.boundaries is not None:
            begins = writes.boundaries[:, t, None, None]
            weights = weights.masked_fill(begins[..., None], 0.0)
            normaliser = None if normaliser is None else normaliser.masked_fill(begins, 0.0)
        now = {name: gate[:, :, t] for name, gate in gates.items()}
        written = rule.step(weights, keys[:, :, t], values[:, :, t], now, normaliser)
        real = None if writes.mask is None else writes.mask[:, t, None, None, None]
        weights = written if real is None else torch.where(real, written, weights)
        reads.append(rule.read(weights, queries[:, :, t : t + 1]))
        if normaliser is not None:
            normaliser = normaliser + keys[:, :, t]
            overlaps.append(_dot(normaliser, queries[:, :, t])[:, :, None])
    after = _after(state, weights, normaliser, None)
    return torch.cat(reads, dim=2).to(dtype), None if normaliser is None else torch.cat(overlaps, 2), after


def accumulate(
    queries: Queries,
    keys: Keys,
    normaliser: Normaliser,
    scale: Rescaling | None,
    decay: PerStep | PerKey | None,
    backend: str,
) -> tuple[PerStep, Normaliser]:
    """z_t · q_t and the final z (Eqs. 16, 18, 26): z is a memory under the sum rule whose value is always 1.

    It decays as W does, so that a read remains a weighted mean of what W still holds.
    """
    # In the precision of z: whether an overlap vanishes must not depend on the inputs' precision.
    queries, keys = queries.to(normaliser.dtype), keys.to(normaliser.dtype)
    ones = torch.ones_like(keys[..., 0])
    overlaps, weights = fast_weight_scan(
        queries,
        keys,
        ones[..., None],
        torch.zeros_like(ones),
        ones if scale is None else scale.write,
        normaliser[:, :, None],
        None if decay is None else decay.to(normaliser.dtype),
        backend=backend,
    )
    return overlaps[..., 0], weights[:, :, 0]


def _overlaps_before(writes: WriteInputs, normaliser: Normaliser, scale: Rescaling | None, backend: str) -> PerStep:
    """z_{t-1} · k_t: each step's z is read with the key of the next; nothing is there before a sequence begins."""
    keys, decay = writes.keys, None if scale is None else scale.decay
    if writes.boundaries is not None:
        decay = decay_at_boundaries(writes.boundaries, keys, decay)
    first = _dot(normaliser, keys[:, :, :1].squeeze(2)) if keys.shape[2] else normaliser.new_zeros(keys.shape[:2])
    following = torch.cat([keys[:, :, 1:], keys[:, :, :1]], dim=2)
    overlaps, _ = accumulate(following, keys, normaliser, scale, decay, backend)
    overlaps = torch.cat([first[:, :, None].to(overlaps.dtype), overlaps], dim=2)[:, :, : keys.shape[2]]
    return overlaps if writes.boundaries is None else overlaps.masked_fill(writes.boundaries[:, None], 0.0)


def _after(
    state: FastWeightState, weights: Weights, normaliser: Normaliser | None, scale: Rescaling | None
) -> FastWeightState:
    log_scale = state.log_scale if scale is None else scale.final
    return replace(state, weights=weights, normaliser=normaliser, log_scale=log_scale)


def _steps_after(rule: UpdateRule, writes: WriteInputs, state: FastWeightState) -> Steps:
    """How many steps every sequence has seen after these; of packed ones, the last of the row."""
    if writes.boundaries is not None:
        return steps_after(writes.boundaries, writes.mask, state.steps)
    seen = writes.keys.shape[2] // rule.writes_per_step if writes.mask is None else writes.mask.sum(dim=1)
    return state.steps + seen


def at_last_writes(queries: Queries, count: int) -> Tensor:
    """Queries that read after the last of every `count` writes; the others read nothing."""
    return queries if count == 1 else pad(queries[:, :, :, None], (0, 0, count - 1, 0)).flatten(2, 3)


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(dim=-1)
