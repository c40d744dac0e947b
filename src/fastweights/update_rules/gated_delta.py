"""The delta rule of a memory that forgets: Gated DeltaNet (Yang, Kautz and Hatamizadeh, 2024)."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from fastweights.shapes import Gates, Key, Keys, Normaliser, PerStep, StepGates, Value, Weights
from fastweights.update_rules.base import Coefficients, LinearRule, outer, retrieve
from fastweights.update_rules.decays import SoftplusDecay
from fastweights.update_rules.gates import Gate, write_strength


@dataclass(frozen=True)
class GatedDeltaRule(LinearRule):
    """W ← α W + β (v - α W k) ⊗ k.

    A decay α takes out what is written under keys that never return, which the delta rule keeps for ever. With
    `negative` β reaches 2, as in `DeltaRule`.
    """

    negative: bool = False

    equations: ClassVar[str] = "-"

    @property
    @override
    def gates(self) -> tuple[Gate, ...]:
        return write_strength(self.negative), SoftplusDecay("alpha")

    @override
    def step(
        self,
        weights: Weights,
        key: Key,
        value: Value,
        gates: StepGates,
        normaliser: Normaliser | None = None,
    ) -> Weights:
        weights = gates["alpha"][..., None, None] * weights
        return weights + outer(gates["beta"][..., None] * (value - retrieve(weights, key)), key)

    @override
    def coefficients(self, keys: Keys, gates: Gates, overlaps: PerStep | None = None) -> Coefficients:
        return Coefficients(erase=gates["beta"], write=gates["beta"], decay=gates["alpha"])
