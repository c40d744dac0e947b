"""The paper's own rule: replace what a key retrieves instead of adding to it (Sec. 4.2)."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from fastweights.shapes import Key, Keys, Normaliser, Strength, Strengths, Value, Weights
from fastweights.update_rules.base import Coefficients, LinearRule, outer, retrieve
from fastweights.update_rules.normalised_delta import NormalisedDeltaRule


@dataclass(frozen=True)
class DeltaRule(LinearRule):
    """W ← W + β (v - W k) ⊗ k."""

    equations: ClassVar[str] = "20-25"

    @override
    def step(
        self,
        weights: Weights,
        key: Key,
        value: Value,
        strength: Strength,
        normaliser: Normaliser | None = None,
    ) -> Weights:
        retrieved = retrieve(weights, key)
        return weights + outer(strength[..., None] * (value - retrieved), key)

    @override
    def coefficients(self, keys: Keys, strengths: Strengths, overlaps: Strengths | None = None) -> Coefficients:
        return Coefficients(erase=strengths, write=strengths)

    @override
    def with_attention_normalisation(self) -> LinearRule:
        return NormalisedDeltaRule()
