"""The interface that training and evaluation ask of a language model."""

from typing import Any, Protocol, runtime_checkable

from torch import Tensor


@runtime_checkable
class Predictor(Protocol):
    """A model that predicts the next token at each position."""

    def __call__(self, tokens: Tensor, states: list[Any] | None = None, mask: Tensor | None = None) -> Any:
        """Hidden vectors that predict the next token at each position, and the state of every layer."""

    def losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """-log p of each target."""
