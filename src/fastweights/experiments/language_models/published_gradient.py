"""The sum rule with the gradient that was published: queries learn nothing from what the carried memory holds.

A read of the sum rule is (W_0 q_t + Σ v_i k_iᵀ q_t) / (z_t · q_t), where W_0 was carried over from the segments before.
The published kernel computes dL/dq_t as if W_0 were 0. Reads, and all other gradients, are right.
"""

import torch
from torch import Tensor, nn
from typing_extensions import override

from fastweights.layers import FastWeightAttention
from fastweights.memory import FastWeightState, WriteInputs
from fastweights.memory.run import accumulate
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


def leave_carried_memory_out(model: nn.Module) -> None:
    """Give the queries of every layer by the sum rule the published gradient; parameters and outputs stay the same."""
    for layer in model.modules():
        if type(layer) is FastWeightAttention:
            if layer.mapping.keeps_scale_apart:
                raise ValueError("published_gradient: it is not known for features whose scale is kept apart")
            layer.__class__ = PublishedSumAttention
