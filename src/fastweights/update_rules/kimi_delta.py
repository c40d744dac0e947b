"""The delta rule with a decay for every component of the keys: Kimi Delta Attention (Kimi Team, 2025)."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from fastweights.shapes import Gates, Key, Keys, Normaliser, PerStep, StepGates, Value, Weights
from fastweights.update_rules.base import Coefficients, LinearRule, outer, retrieve
from fastweights.update_rules.decays import KimiDecay
from fastweights.update_rules.gates import Gate, write_strength


@dataclass(frozen=True)
class KimiDeltaRule(LinearRule):
    """W ← W diag(α) + β (v - W diag(α) k) ⊗ k.

    Each column of W, which belongs to one component of the keys, forgets at its own pace. `log_bound` keeps every α
    above exp(log_bound), see `KimiDecay`.
    """

    negative: bool = False
    log_bound: float | None = None

    equations: ClassVar[str] = "-"

    @property
    @override
    def gates(self) -> tuple[Gate, ...]:
        return write_strength(self.negative), KimiDecay("alpha", log_bound=self.log_bound)

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
        return weights + outer(gates["beta"][..., None] * (value - retrieve(weights, key)), key)

    @override
    def coefficients(self, keys: Keys, gates: Gates, overlaps: PerStep | None = None) -> Coefficients:
        return Coefficients(erase=gates["beta"], write=gates["beta"], decay=gates["alpha"])
