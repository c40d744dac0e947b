"""The fast weight programmer of 1991: a slow net that adds outer products to a fast net (Sec. 2)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor
from typing_extensions import override

from fastweights.shapes import Key, Normaliser, StepGates, Value, Weights
from fastweights.update_rules.base import UpdateRule, outer

Activation = Literal["identity", "tanh", "sigmoid", "relu"]

_FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "identity": lambda weights: weights,
    "tanh": torch.tanh,
    "sigmoid": torch.sigmoid,
    "relu": torch.relu,
}


@dataclass(frozen=True)
class ProgrammerRule(UpdateRule):
    """W ← σ(W + a ⊗ b)  with a the value and b the key.

    σ acts on all of W at every step, so the rule is not linear and runs step by step. With the identity for σ it is
    the sum rule.
    """

    activation: Activation = "tanh"

    equations: ClassVar[str] = "1-3"

    def __post_init__(self) -> None:
        if self.activation not in _FUNCTIONS:
            known = ", ".join(get_args(Activation))
            raise ValueError(f"ProgrammerRule: activation must be one of {known}, got {self.activation!r}")

    @override
    def step(
        self,
        weights: Weights,
        key: Key,
        value: Value,
        gates: StepGates,
        normaliser: Normaliser | None = None,
    ) -> Weights:
        return _FUNCTIONS[self.activation](weights + outer(value, key))
