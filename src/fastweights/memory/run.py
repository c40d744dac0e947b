"""Running any update rule over a sequence: by the operator where the rule is linear, step by step where it is not."""

from typing import NamedTuple

import torch
from torch import Tensor

from fastweights.memory.normalise import AttentionNormalisation
from fastweights.memory.scan import fast_weight_scan
from fastweights.memory.state import NO_SCALE, FastWeightState
from fastweights.shapes import Keys, Mask, Normaliser, Queries, Strengths, Values, Weights
from fastweights.update_rules import LinearRule, UpdateRule
from fastweights.update_rules.normalised_delta import reciprocal_or_zero


class Writes(NamedTuple):
    """What a sequence writes: mapped and normalised keys, values, and the write strengths β.

    `mask` is true for real steps; a padded step changes nothing. Where `log_scales` are given, each key stands for
    exp(s_t) times itself (docs/math.md#stabilised-favor).
    """

    keys: Keys
    values: Values
    strengths: Strengths
    mask: Mask | None = None
    log_scales: Strengths | None = None

    def without_padding(self) -> "Writes":
        """The same writes with everything of the padded steps, NaN included, replaced by zero."""
        if self.mask is None:
            return self
        padded = ~self.mask[:, None, :]
        scales = self.log_scales
        return Writes(
            self.keys.masked_fill(padded[..., None], 0.0),
            self.values.masked_fill(padded[..., None], 0.0),
            self.strengths.masked_fill(padded, 0.0),
            self.mask,
            None if scales is None else scales.masked_fill(padded, NO_SCALE),
        )

    def in_precision_of_weights(self) -> "Writes":
        """The same writes in at least float32: what a rule makes of them, a decay of 0.99 say, keeps its digits."""
        dtype = torch.promote_types(self.keys.dtype, torch.float32)
        return self._replace(keys=self.keys.to(dtype), values=self.values.to(dtype), strengths=self.strengths.to(dtype))


def run_rule(
    rule: UpdateRule,
    writes: Writes,
    queries: Queries,
    state: FastWeightState,
    *,
    attention_normalisation: AttentionNormalisation | None = None,
    causal: bool = True,
    backend: str = "auto",
) -> tuple[Values, FastWeightState]:
    """Write a sequence into the memory and read it: after each step, or only at the end if not `causal`.

    With attention normalisation the state must hold a normaliser; it is carried on and divides every read.
    """
    if attention_normalisation is not None and attention_normalisation.retrieval:
        rule = rule.with_attention_normalisation()
    if (attention_normalisation is not None or rule.needs_normaliser) and state.normaliser is None:
        raise ValueError(f"{type(rule).__name__} with attention normalisation needs a state with a normaliser")
    writes, results = writes.without_padding().in_precision_of_weights(), writes.values.dtype
    queries = queries.to(writes.keys.dtype)
    # What is read along the way is of no use if not causal; the queries may then be of any number.
    along = queries if causal else writes.keys
    if isinstance(rule, LinearRule):
        reads, overlaps, after = _scan(rule, writes, along, state, backend)
    else:
        reads, overlaps, after = _steps(rule, writes, along, state, backend)
    if not causal:
        reads = rule.read(after.weights, queries.to(after.weights.dtype)).to(queries.dtype)
        overlaps = None if after.normaliser is None else _dot(after.normaliser[:, :, None], queries)
    if attention_normalisation is not None and overlaps is not None:
        reads = reads * reciprocal_or_zero(overlaps)[..., None]
    return reads.to(results), after


def _scan(
    rule: LinearRule, writes: Writes, queries: Queries, state: FastWeightState, backend: str
) -> tuple[Values, Strengths | None, FastWeightState]:
    """Reads W_t q_t, overlaps z_t · q_t if there is a z, and the final state, by the operator."""
    scale = _Rescaling.of(writes, state)
    if scale is not None and not rule.follows_scale:
        raise ValueError(f"{type(rule).__name__} depends on the length of keys and takes none with a scale apart")
    overlaps, normaliser, before = None, state.normaliser, None
    if normaliser is not None:
        if rule.needs_normaliser:
            before = _overlaps_before(writes.keys, normaliser, scale, backend)
        overlaps, normaliser = _accumulate(queries, writes.keys, normaliser, scale, backend)
    erase, write, decay = rule.coefficients(writes.keys, writes.strengths, before)
    if writes.mask is not None:
        padded = ~writes.mask[:, None, :]
        erase, write = erase.masked_fill(padded, 0.0), write.masked_fill(padded, 0.0)
        decay = None if decay is None else decay.masked_fill(padded, 1.0)
    if scale is not None:
        erase, write = erase * scale.write / scale.decay, write * scale.write
        decay = scale.decay if decay is None else scale.decay * decay
    reads, weights = fast_weight_scan(
        queries, writes.keys, writes.values, erase, write, state.weights, decay, backend=backend
    )
    return reads, overlaps, _after(writes, state, weights, normaliser)


def _steps(
    rule: UpdateRule, writes: Writes, queries: Queries, state: FastWeightState, backend: str
) -> tuple[Values, Strengths | None, FastWeightState]:
    """The same step by step, straight from the definition of the rule."""
    if backend not in ("auto", "recurrent"):
        raise ValueError(
            f"backend: {backend!r} cannot run {type(rule).__name__}, which is not linear in W; "
            "possible: auto, recurrent"
        )
    if writes.log_scales is not None:
        raise ValueError(f"{type(rule).__name__} is not linear in W and takes no keys with a scale apart")
    weights, normaliser = state.weights, state.normaliser
    keys, values, strengths, queries = (x.to(weights.dtype) for x in (*writes[:3], queries))
    reads: list[Tensor] = [values[:, :, :0]]
    overlaps: list[Tensor] = [strengths[:, :, :0]]
    for t in range(keys.shape[2]):
        written = rule.step(weights, keys[:, :, t], values[:, :, t], strengths[:, :, t], normaliser)
        weights = written if writes.mask is None else torch.where(_row(writes.mask, t), written, weights)
        reads.append(rule.read(weights, queries[:, :, t : t + 1]))
        if normaliser is not None:
            normaliser = normaliser + keys[:, :, t]
            overlaps.append(_dot(normaliser, queries[:, :, t])[:, :, None])
    after = _after(writes, state, weights, normaliser)
    return (
        torch.cat(reads, dim=2).to(writes.values.dtype),
        None if normaliser is None else torch.cat(overlaps, 2),
        after,
    )


def _accumulate(
    queries: Queries, keys: Keys, normaliser: Normaliser, scale: "_Rescaling | None", backend: str
) -> tuple[Strengths, Normaliser]:
    """z_t · q_t and the final z (Eqs. 16, 18, 26): z is a memory under the sum rule whose value is always 1."""
    # In the precision of z: whether an overlap vanishes must not be a question of the inputs' precision.
    queries, keys = queries.to(normaliser.dtype), keys.to(normaliser.dtype)
    ones = torch.ones_like(keys[..., 0])
    overlaps, weights = fast_weight_scan(
        queries,
        keys,
        ones[..., None],
        torch.zeros_like(ones),
        ones if scale is None else scale.write,
        normaliser[:, :, None],
        None if scale is None else scale.decay,
        backend=backend,
    )
    return overlaps[..., 0], weights[:, :, 0]


def _overlaps_before(keys: Keys, normaliser: Normaliser, scale: "_Rescaling | None", backend: str) -> Strengths:
    """z_{t-1} · k_t: each step's z is read with the key of the next."""
    first = _dot(normaliser, keys[:, :, :1].squeeze(2)) if keys.shape[2] else normaliser.new_zeros(keys.shape[:2])
    following = torch.cat([keys[:, :, 1:], keys[:, :, :1]], dim=2)
    overlaps, _ = _accumulate(following, keys, normaliser, scale, backend)
    return torch.cat([first[:, :, None].to(overlaps.dtype), overlaps], dim=2)[:, :, : keys.shape[2]]


class _Rescaling(NamedTuple):
    """How a memory that is kept as exp(-M_t) W_t follows the running maximum M_t = max(M_{t-1}, s_t).

    What was there decays by exp(M_{t-1} - M_t), what is written is scaled by exp(s_t - M_t). Both are at most 1,
    neither looks at later steps, and reads that are divided by z do not notice.
    """

    decay: Strengths
    write: Strengths

    @classmethod
    def of(cls, writes: Writes, state: FastWeightState) -> "_Rescaling | None":
        if writes.log_scales is None:
            return None
        if state.log_scale is None:
            raise ValueError("keys with a scale apart need a state with a log_scale, got one without")
        scales = torch.cat([state.log_scale[..., None], writes.log_scales], dim=-1)
        maxima = scales.cummax(dim=-1).values
        # exp(-60) is far below rounding; a floor keeps divisions by the decay finite.
        return cls(
            (maxima[..., :-1] - maxima[..., 1:]).clamp(min=-60).exp(),
            (writes.log_scales - maxima[..., 1:]).exp(),
        )


def _after(writes: Writes, state: FastWeightState, weights: Weights, normaliser: Tensor | None) -> FastWeightState:
    seen = writes.keys.shape[2] if writes.mask is None else writes.mask.sum(dim=1)
    log_scale = state.log_scale
    if log_scale is not None and writes.log_scales is not None:
        log_scale = torch.cat([log_scale[..., None], writes.log_scales], dim=-1).amax(dim=-1)
    return FastWeightState(weights, normaliser, state.steps + seen, log_scale)


def _dot(x: Tensor, y: Tensor) -> Tensor:
    return (x * y).sum(dim=-1)


def _row(mask: Mask, t: int) -> Tensor:
    return mask[:, t, None, None, None]
