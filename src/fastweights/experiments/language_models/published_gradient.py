"""The sum rule with the gradient that was published: queries learn nothing from what the carried memory holds.

A read of the sum rule is (W_0 q_t + Σ v_i k_iᵀ q_t) / (z_t · q_t), where W_0 was carried over from the segments before.
The published kernel computes dL/dq_t with W_0 = 0. Outputs, and all other gradients, are right.
"""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from fastweights.layers import FastWeightAttention
from fastweights.memory import AttentionNormalisation, FastWeightState, NoNormalisation, Normalisation, WriteInputs
from fastweights.memory.run import accumulate
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.update_rules import SumRule, UpdateRule
from fastweights.update_rules.normalised_delta import reciprocal_or_zero


class PublishedSumAttention(FastWeightAttention):
    """Attention by the sum rule whose queries get no gradient through W_0 q."""

    @override
    def _run(
        self, writes: WriteInputs, queries: Tensor, state: FastWeightState, x: Tensor, causal: bool
    ) -> tuple[Tensor, FastWeightState]:
        y, after = super()._run(writes, queries, state, x, causal)
        assert state.normaliser is not None
        with torch.no_grad():
            overlaps, _ = accumulate(queries, writes.keys, state.normaliser, None, None, self.backend)
        # Zero, with a gradient to the queries that takes back the one through W_0 q.
        nothing = torch.einsum("bhvk,bhtk->bhtv", state.weights, queries.detach() - queries)
        return y + self._outputs(nothing * reciprocal_or_zero(overlaps)[..., None]), after


@dataclass(frozen=True)
class PublishedSumConfig(FastWeightAttentionConfig):
    """Linear attention by the sum rule (Eqs. 18-19), with the published gradient."""

    update_rule: UpdateRule = SumRule()  # noqa: RUF009  a frozen value
    normalisation: Normalisation = NoNormalisation()  # noqa: RUF009
    attention_normalisation: AttentionNormalisation | None = AttentionNormalisation()  # noqa: RUF009

    layer: ClassVar[type[FastWeightAttention]] = PublishedSumAttention

    def __post_init__(self) -> None:
        if not isinstance(self.update_rule, SumRule) or self.attention_normalisation is None:
            raise ValueError("published-sum: expected the sum rule with attention normalisation")
