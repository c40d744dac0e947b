"""The sum rule of a memory that forgets: Mamba-2, RetNet, Lightning and gated linear attention, by their decay."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from typing_extensions import override

from fastweights.shapes import Gates, Key, Keys, Normaliser, PerStep, StepGates, Value, Weights
from fastweights.update_rules.base import Coefficients, LinearRule, outer
from fastweights.update_rules.decays import Decay, Mamba2Decay
from fastweights.update_rules.gates import Gate


@dataclass(frozen=True)
class DecayedSumRule(LinearRule):
    """W ← W diag(g) + b v ⊗ k.

    `decay` says where g comes from, and b if it is not 1: `Mamba2Decay()`, `RetNetDecay()`, `LightningDecay()`,
    `GatedLinearDecay()` or any other gate of its kind.
    """

    decay: Decay = Mamba2Decay()  # noqa: RUF009  a frozen value

    equations: ClassVar[str] = "-"
    follows_scale: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if not isinstance(self.decay, Decay):
            raise ValueError(f"decay: expected a gate such as Mamba2Decay() or RetNetDecay(), got {self.decay!r}")

    @property
    @override
    def gates(self) -> tuple[Gate, ...]:
        return (self.decay,)

    @override
    def step(
        self,
        weights: Weights,
        key: Key,
        value: Value,
        gates: StepGates,
        normaliser: Normaliser | None = None,
    ) -> Weights:
        decay, write = self.decay.split(gates[self.decay.label])
        kept = weights * (decay[..., None, :] if self.decay.per == "key" else decay[..., None, None])
        return kept + outer(value if write is None else write[..., None] * value, key)

    @override
    def coefficients(self, keys: Keys, gates: Gates, overlaps: PerStep | None = None) -> Coefficients:
        decay, write = self.decay.split(gates[self.decay.label])
        ones = torch.ones_like(keys[..., 0])
        return Coefficients(erase=torch.zeros_like(ones), write=ones if write is None else write, decay=decay)
