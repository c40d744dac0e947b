"""Gates: the numbers that an update rule asks of its layer at every step, such as the write strength β (Eq. 21)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Literal

from torch import Tensor
from typing_extensions import override


@dataclass(frozen=True)
class Gate(ABC):
    """g = activation(W_g x): one number per head and step, or one for each component of the mapped key.

    A layer computes the logits W_g x of all gates of its rule in its one projection. What a gate learns beside W_g it
    makes in `parameters`; the layer keeps these and hands them back to every call.
    """

    name: str
    per: Literal["head", "key"] = "head"

    def parameters(self, num_heads: int) -> dict[str, Tensor]:
        """Initial values of what the gate learns beside W_g, by name; the model's own initialisation leaves them."""
        return {}

    @abstractmethod
    def __call__(self, logits: Tensor, **parameters: Tensor) -> Tensor:
        """The gate from its logits, of shape (b, h, t), or (b, h, t, k) if it is one `per` key component."""


@dataclass(frozen=True)
class WriteStrength(Gate):
    """β = σ(W_β x) (Eq. 21): how much of the old value a write replaces."""

    @override
    def __call__(self, logits: Tensor, **parameters: Tensor) -> Tensor:
        return logits.sigmoid()


BETA = WriteStrength("beta")
