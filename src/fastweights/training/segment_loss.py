"""A language model and its loss as one module: what is differentiated, and what DistributedDataParallel wraps."""

from typing import Any, Protocol, runtime_checkable

from torch import Tensor, nn
from typing_extensions import override

from fastweights.data.text.segments import Tokens


@runtime_checkable
class Predictor(Protocol):
    """What training and evaluation ask of a model."""

    def __call__(self, tokens: Tensor, states: list[Any] | None = None, mask: Tensor | None = None) -> Any:
        """Hidden vectors that predict the next token at each position, and the state of every layer."""

    def losses(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """-log p of each target."""


class SegmentLoss(nn.Module):
    """L = -1/(b t) Σ log p(x_{i+1} | x_1 … x_i)."""

    def __init__(self, model: Predictor) -> None:
        super().__init__()
        self.model = model

    @override
    def forward(self, inputs: Tokens, targets: Tokens, states: list[Any] | None) -> tuple[Tensor, list[Any]]:
        hidden, states = self.model(inputs, states)
        return self.model.losses(hidden, targets).mean(), states
