"""The additive rule of linear Transformers (Secs. 3.1 and 3.2)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from typing_extensions import override

from fastweights.shapes import Gates, Key, Keys, Normaliser, PerStep, StepGates, Value, Weights
from fastweights.update_rules.base import Coefficients, LinearRule, outer


@dataclass(frozen=True)
class SumRule(LinearRule):
    """W ← W + v ⊗ k."""

    equations: ClassVar[str] = "10, 17"
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
        return weights + outer(value, key)

    @override
    def coefficients(self, keys: Keys, gates: Gates, overlaps: PerStep | None = None) -> Coefficients:
        ones = torch.ones_like(keys[..., 0])
        return Coefficients(erase=torch.zeros_like(ones), write=ones)
