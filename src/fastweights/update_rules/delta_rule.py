"""The paper's own rule: replace what a key retrieves instead of adding to it (Sec. 4.2)."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from fastweights.shapes import Gates, Key, Keys, Normaliser, PerStep, StepGates, Value, Weights
from fastweights.update_rules.base import Coefficients, LinearRule, outer, retrieve
from fastweights.update_rules.gates import Gate, write_strength
from fastweights.update_rules.normalised_delta import NormalisedDeltaRule


@dataclass(frozen=True)
class DeltaRule(LinearRule):
    """W ← W + β (v - W k) ⊗ k.

    With `negative` β reaches 2: a write then takes away up to twice what the key retrieves, so that the memory can
    change sign, which counting and parity need (Grazzi et al., 2024). With a `beta_bias` β starts at σ(beta_bias)
    instead of ½: at 3 a first write already replaces 95 % of the old value.
    """

    negative: bool = False
    beta_bias: float | None = None

    equations: ClassVar[str] = "20-25"

    @property
    @override
    def gates(self) -> tuple[Gate, ...]:
        return (write_strength(self.negative, bias=self.beta_bias),)

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
        return weights + outer(gates["beta"][..., None] * (value - retrieved), key)

    @override
    def coefficients(self, keys: Keys, gates: Gates, overlaps: PerStep | None = None) -> Coefficients:
        return Coefficients(erase=gates["beta"], write=gates["beta"])

    @override
    def with_attention_normalisation(self) -> LinearRule:
        return NormalisedDeltaRule()
