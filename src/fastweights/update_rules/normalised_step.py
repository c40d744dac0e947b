"""The delta rule with the step size of normalised least mean squares (NLMS; Nagumo & Noda, 1967)."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from fastweights.shapes import Gates, Key, Keys, Normaliser, PerStep, StepGates, Value, Weights
from fastweights.update_rules.base import Coefficients, LinearRule, outer, retrieve
from fastweights.update_rules.gates import Gate, write_strength


@dataclass(frozen=True)
class NormalisedStep(LinearRule):
    """W ← W + β / (|k|² + ε) (v - W k) ⊗ k.

    Right after the write the key retrieves W k = β v + (1 - β) v̄, which is what Eq. 22 asks for, whatever the length
    of the key. The delta rule does so for keys of length 1 only; a sum-normalised key is shorter, so that its write
    lands in part. Erase and write coefficients are equal, so sum-normalised keys still balance what a write adds and
    removes (App. A.2).
    """

    negative: bool = False
    beta_bias: float | None = None
    epsilon: float = 1e-8

    equations: ClassVar[str] = "-"

    def __post_init__(self) -> None:
        if not self.epsilon >= 0:
            raise ValueError(f"epsilon: expected a number from 0 on, got {self.epsilon}")

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
        step_size = gates["beta"] / (key.square().sum(dim=-1) + self.epsilon)
        return weights + outer(step_size[..., None] * (value - retrieve(weights, key)), key)

    @override
    def coefficients(self, keys: Keys, gates: Gates, overlaps: PerStep | None = None) -> Coefficients:
        step_sizes = gates["beta"] / (keys.square().sum(dim=-1) + self.epsilon)
        return Coefficients(erase=step_sizes, write=step_sizes)
