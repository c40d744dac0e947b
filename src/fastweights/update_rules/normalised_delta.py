"""The delta rule with attention normalisation of its retrieval (Sec. 4.2, "Normalisation")."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from fastweights.shapes import Gates, Key, Keys, Normaliser, PerStep, StepGates, Value, Weights
from fastweights.update_rules.base import Coefficients, LinearRule, outer, retrieve
from fastweights.update_rules.gates import BETA, Gate


def reciprocal_or_zero(overlap: Tensor) -> Tensor:
    """1 / x, and 0 where x vanishes: what overlaps with nothing retrieves nothing (v̄₁ = 0).

    "Vanishes" is below tiny^0.4 (7e-16 in float32), so that the square of the result, which appears in
    gradients, is still finite.
    """
    vanishes = overlap.abs() <= torch.finfo(overlap.dtype).tiny ** 0.4
    return torch.where(vanishes, 0.0, 1.0 / torch.where(vanishes, 1.0, overlap))


@dataclass(frozen=True)
class NormalisedDeltaRule(LinearRule):
    """W ← W + β (v - W k / (z·k)) ⊗ k  with  z the sum of all earlier keys.

    The erase and write coefficients differ, β / (z·k) and β, so a key that overlaps with no earlier one erases nothing
    and is still written in full.
    """

    equations: ClassVar[str] = "24, 26-28"
    gates: ClassVar[tuple[Gate, ...]] = (BETA,)
    needs_normaliser: ClassVar[bool] = True
    follows_scale: ClassVar[bool] = True

    @override
    def step(
        self,
        weights: Weights,
        key: Key,
        value: Value,
        gates: StepGates,
        normaliser: Normaliser | None = None,
    ) -> Weights:
        if normaliser is None:
            raise ValueError("NormalisedDeltaRule.step needs the normaliser z; DeltaRule is the rule without one")
        overlap = torch.einsum("bhk,bhk->bh", normaliser, key)
        retrieved = retrieve(weights, key) * reciprocal_or_zero(overlap)[..., None]
        return weights + outer(gates["beta"][..., None] * (value - retrieved), key)

    @override
    def coefficients(self, keys: Keys, gates: Gates, overlaps: PerStep | None = None) -> Coefficients:
        if overlaps is None:
            raise ValueError("NormalisedDeltaRule.coefficients needs the overlaps z·k; DeltaRule is the rule without")
        return Coefficients(erase=gates["beta"] * reciprocal_or_zero(overlaps), write=gates["beta"])
