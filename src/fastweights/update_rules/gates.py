"""Gates: the numbers that an update rule asks of its layer at every step, such as the write strength β (Eq. 21)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor
from typing_extensions import override


@dataclass(frozen=True)
class Gate(ABC):
    """g = activation(W_g x): one number per head and step, or one for each component of the mapped key or the value.

    A layer computes the logits W_g x of all gates of its rule in its one projection, or, if a gate has a `rank`, as
    W_up W_down x ("head": as many components as a head has values). What a gate learns beside W_g it makes in
    `parameters`; the layer keeps these and hands them back to every call. Of a rule with several writes per step,
    `each_write` has a gate of its own.
    """

    label: str
    """By which the rule and the layer know it; the `name` of a configuration is that of the class."""
    per: Literal["head", "key", "value"] = "head"
    rank: int | Literal["head"] | None = None
    each_write: bool = False

    from_input: ClassVar[bool] = True
    """True if the gate depends on the input; if not, it has no W_g, and its logits have no components."""

    def __post_init__(self) -> None:
        # LightningDecay(0.5) would be a decay of depth 0 that is called 0.5.
        if not isinstance(self.label, str):
            raise ValueError(
                f"{type(self).__name__}: the first argument is the label, a text, got {self.label!r}; "
                "give the others by name"
            )
        if isinstance(self.rank, int) and self.rank < 1:
            raise ValueError(f"rank: expected at least 1, 'head' or None, got {self.rank}")

    def parameters(self, num_heads: int, components: int) -> dict[str, Tensor]:
        """Initial values of what the gate learns beside W_g, by name; the model's own initialisation leaves them."""
        return {}

    @abstractmethod
    def __call__(self, logits: Tensor, **parameters: Tensor) -> Tensor:
        """The gate from its logits: (b, h, t), or (b, h, t, components) if it is not one per head."""


@dataclass(frozen=True)
class WriteStrength(Gate):
    """β = largest · σ(W_β x + b) (Eq. 21): how much of the old value a write replaces.

    The bias b is learned, one per head, and starts at `bias`; without one there is none, as in the paper.
    """

    largest: float = 1.0
    bias: float | None = None

    @override
    def parameters(self, num_heads: int, components: int) -> dict[str, Tensor]:
        return {} if self.bias is None else {"bias": torch.full((num_heads,), self.bias)}

    @override
    def __call__(self, logits: Tensor, **parameters: Tensor) -> Tensor:
        if parameters:
            logits = logits + parameters["bias"].unsqueeze(1)
        return logits.sigmoid() if self.largest == 1.0 else self.largest * logits.sigmoid()


BETA = WriteStrength("beta")


def write_strength(negative: bool, each_write: bool = False, bias: float | None = None) -> WriteStrength:
    """β in (0, 1), or in (0, 2): then I - β k kᵀ has eigenvalues down to -1 for keys of length 1."""
    return WriteStrength("beta", each_write=each_write, largest=2.0 if negative else 1.0, bias=bias)
