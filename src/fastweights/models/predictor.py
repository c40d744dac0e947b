"""The interface that training and evaluation ask of a language model."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from torch import Tensor

from fastweights.memory import LayerState


@runtime_checkable
class Predictor(Protocol):
    """A model that predicts the next token at each position."""

    def __call__(
        self, tokens: Tensor, states: Sequence[LayerState] | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, list[LayerState]]:
        """Hidden vectors that predict the next token at each position, and the state of every layer."""

    def losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """-log p of each target."""
