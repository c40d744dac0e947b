"""The rule of Schlag et al. (2021) as the paper's baselines use it (Sec. 6.1.2)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from typing_extensions import override

from fastweights.shapes import Key, Normaliser, Queries, StepGates, Value, Values, Weights
from fastweights.update_rules.base import UpdateRule, outer, retrieve
from fastweights.update_rules.gates import BETA, Gate


@dataclass(frozen=True)
class FastWeightMemoryRule(UpdateRule):
    """W ← W̃ / max(1, |W̃|)  with  W̃ = W + β (v - W k) ⊗ k  and |·| the Frobenius norm.

    The clamp makes the rule non-linear, so it runs step by step. `layer_norm` normalises each read to zero mean
    and unit variance, without parameters, as the published baseline does.
    """

    layer_norm: bool = True

    equations: ClassVar[str] = "Sec. 6.1.2"
    gates: ClassVar[tuple[Gate, ...]] = (BETA,)

    @override
    def step(
        self,
        weights: Weights,
        key: Key,
        value: Value,
        gates: StepGates,
        normaliser: Normaliser | None = None,
    ) -> Weights:
        retrieved = retrieve(weights, key)
        weights = weights + outer(gates["beta"][..., None] * (value - retrieved), key)
        # Taken of scaled weights, so that no square overflows.
        scale = weights.detach().abs().amax(dim=(-2, -1), keepdim=True).clamp(min=1)
        norm = scale * torch.linalg.vector_norm(weights / scale, dim=(-2, -1), keepdim=True)
        return weights / norm.clamp(min=1)

    @override
    def read(self, weights: Weights, queries: Queries) -> Values:
        values = super().read(weights, queries)
        return torch.nn.functional.layer_norm(values, values.shape[-1:]) if self.layer_norm else values
