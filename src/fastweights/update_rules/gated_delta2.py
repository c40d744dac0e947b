"""A gate of its own for every component that is erased, written and kept: Gated DeltaNet-2 (2026)."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from typing_extensions import override

from fastweights.shapes import Gates, Key, Keys, Normaliser, PerStep, StepGates, Value, Weights
from fastweights.update_rules.base import Coefficients, LinearRule, outer, retrieve
from fastweights.update_rules.decays import KimiDecay
from fastweights.update_rules.gates import Gate, WriteStrength


@dataclass(frozen=True)
class GatedDeltaRule2(LinearRule):
    """W ← W diag(α) + (w ∘ v - W diag(α) (b ∘ k)) ⊗ k.

    What is erased is looked up with the key gated by b (`erase`), what is written is the value gated by w (`write`).
    With `negative` b reaches 2.
    """

    negative: bool = False

    equations: ClassVar[str] = "-"

    @property
    @override
    def gates(self) -> tuple[Gate, ...]:
        erase = WriteStrength("erase", per="key", largest=2.0 if self.negative else 1.0)
        return erase, WriteStrength("write", per="value"), KimiDecay("alpha")

    @override
    def step(
        self,
        weights: Weights,
        key: Key,
        value: Value,
        gates: StepGates,
        normaliser: Normaliser | None = None,
    ) -> Weights:
        weights = weights * gates["alpha"][..., None, :]
        return weights + outer(gates["write"] * value - retrieve(weights, gates["erase"] * key), key)

    @override
    def coefficients(self, keys: Keys, gates: Gates, overlaps: PerStep | None = None) -> Coefficients:
        return Coefficients(
            erase=torch.ones_like(keys[..., 0]),
            write=gates["write"],
            decay=gates["alpha"],
            lookups=gates["erase"] * keys,
        )
