"""Several delta writes per step: DeltaProduct (Siems et al., 2025)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from typing_extensions import override

from fastweights.shapes import Gates, Key, Keys, Normaliser, PerStep, StepGates, Value, Weights
from fastweights.update_rules.base import Coefficients, LinearRule, outer, retrieve
from fastweights.update_rules.decays import SoftplusDecay
from fastweights.update_rules.gates import Gate, write_strength


@dataclass(frozen=True)
class DeltaProductRule(LinearRule):
    """W ← α W,  then  W ← W + β_i (v_i - W k_i) ⊗ k_i  for i = 1 … n.

    One step multiplies W by a product of n matrices I - β k kᵀ, which for β up to 2 can be any rotation in n dimensions
    (`negative`); one such matrix alone can only reflect. Without `gated` there is no α.
    """

    num_writes: int = 2
    negative: bool = True
    gated: bool = False

    equations: ClassVar[str] = "-"

    def __post_init__(self) -> None:
        if not isinstance(self.num_writes, int) or self.num_writes < 1:
            raise ValueError(f"DeltaProductRule: num_writes must be a whole number, at least 1, got {self.num_writes}")

    @property
    @override
    def writes_per_step(self) -> int:
        return self.num_writes

    @property
    @override
    def gates(self) -> tuple[Gate, ...]:
        beta = write_strength(self.negative, each_write=True)
        return (beta, SoftplusDecay("alpha")) if self.gated else (beta,)

    @override
    def gates_per_write(self, gates: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """α at the first write of every step, 1 at the others."""
        if not self.gated:
            return gates
        ones = torch.ones_like(gates["alpha"])[..., None].expand(*gates["alpha"].shape, self.num_writes - 1)
        return {**gates, "alpha": torch.cat([gates["alpha"][..., None], ones], dim=-1).flatten(2)}

    @override
    def step(
        self,
        weights: Weights,
        key: Key,
        value: Value,
        gates: StepGates,
        normaliser: Normaliser | None = None,
    ) -> Weights:
        weights = weights if not self.gated else gates["alpha"][..., None, None] * weights
        return weights + outer(gates["beta"][..., None] * (value - retrieve(weights, key)), key)

    @override
    def coefficients(self, keys: Keys, gates: Gates, overlaps: PerStep | None = None) -> Coefficients:
        decay: Tensor | None = gates["alpha"] if self.gated else None
        return Coefficients(erase=gates["beta"], write=gates["beta"], decay=decay)
