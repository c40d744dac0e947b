"""The sum rule over a whole sequence without a scan: its writes do not depend on each other.

    W = Σ_j v_j ⊗ k_j        y_i = W q_i        or, with no W at all,        y_i = Σ_j (k_j·q_i) v_j

The second form takes t·s products of d_dot + d_value numbers instead of (t + s)·d_dot·d_value, which is less for
sentences. Padded steps must hold finite numbers.
"""

import torch
from torch import Tensor

from fastweights.memory.normalise import AttentionNormalisation
from fastweights.memory.rescaling import Rescaling
from fastweights.memory.state import FastWeightState
from fastweights.memory.write_inputs import WriteInputs
from fastweights.shapes import Mask, PerStep, Queries, Values
from fastweights.update_rules import UpdateRule
from fastweights.update_rules.normalised_delta import reciprocal_or_zero


def is_short(queries: int, steps: int, feature_dim: int, value_dim: int) -> bool:
    """True if products of queries and keys take fewer multiplications than writing W and reading it."""
    return queries * steps * (feature_dim + value_dim) <= (queries + steps) * feature_dim * value_dim


def attend(writes: WriteInputs, queries: Queries, *, normalised: bool, causal: bool) -> Values:
    """y_i = Σ_j a_ij v_j with a_ij = k_j·q_i, over Σ_j a_ij if normalised; j ≤ i if causal; from an empty memory."""
    dtype = torch.promote_types(writes.keys.dtype, torch.float32)
    keys, values, mask, log_scales = writes.keys.to(dtype), writes.values.to(dtype), writes.mask, writes.log_scales
    scores = queries.to(dtype) @ keys.mT
    if log_scales is not None:
        scores = scores * _relative_scales(log_scales, mask, causal).to(dtype)
    if mask is not None:
        scores = scores.masked_fill(~mask[:, None, None, :], 0.0)
    if causal:
        scores = scores.tril()
    reads = scores @ values
    if normalised:
        reads = reads * reciprocal_or_zero(scores.sum(dim=-1))[..., None]
    return reads.to(writes.values.dtype)


def write_all(writes: WriteInputs, state: FastWeightState) -> FastWeightState:
    """W + Σ_j v_j ⊗ k_j, z + Σ_j k_j: the state after all writes."""
    weights, normaliser, steps, log_scale = state.weights, state.normaliser, state.steps, state.log_scale
    writes = writes.without_padding().to(weights.dtype)
    keys = writes.keys
    if writes.log_scales is not None:
        scale = Rescaling.of(writes.log_scales, log_scale)
        assert scale is not None
        kept = (log_scale - scale.final).exp().to(weights.dtype)  # type: ignore[operator]
        weights = kept[..., None, None] * weights
        normaliser = None if normaliser is None else kept[..., None] * normaliser
        keys, log_scale = keys * (writes.log_scales - scale.final[..., None]).exp()[..., None], scale.final
    seen = keys.shape[2] if writes.mask is None else writes.mask.sum(dim=1)
    return FastWeightState(
        weights + writes.values.mT @ keys,
        None if normaliser is None else normaliser + keys.sum(dim=2),
        steps + seen,
        log_scale,
    )


def read_memory(
    rule: UpdateRule, state: FastWeightState, queries: Queries, attention_normalisation: AttentionNormalisation | None
) -> Values:
    """y = W q, over z·q with attention normalisation; in the precision of the memory."""
    queries = queries.to(state.weights.dtype)
    reads = rule.read(state.weights, queries)
    if attention_normalisation is None:
        return reads
    assert state.normaliser is not None
    return reads * reciprocal_or_zero(queries @ state.normaliser[..., None])


def _relative_scales(log_scales: PerStep, mask: Mask | None, causal: bool) -> Tensor:
    """exp(s_j - M_i) with M_i = max s_j over the real j that query i sees; zero in the future and in padded steps."""
    scales = log_scales if mask is None else log_scales.masked_fill(~mask[:, None, :], -torch.inf)
    scales = scales[:, :, None, :]
    if causal:
        steps = scales.shape[-1]
        future = torch.ones(steps, steps, dtype=torch.bool, device=scales.device).triu(1)
        scales = scales.expand(-1, -1, steps, -1).masked_fill(future, -torch.inf)
    largest = scales.amax(dim=-1, keepdim=True)
    # Where nothing is seen, the largest is -∞ and so is every scale: the difference must not become NaN.
    return (scales - largest.masked_fill(largest == -torch.inf, 0.0)).exp()
