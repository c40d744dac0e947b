"""The position-wise feed-forward layer of a Transformer."""

from torch import nn
from typing_extensions import override

from fastweights.layers.exact.dropout import Dropout
from fastweights.shapes import Inputs


class FeedForward(nn.Module):
    """y = W₂ relu(W₁ x + b₁) + b₂, with dropout after each."""

    def __init__(self, model_dim: int, hidden_dim: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(model_dim, hidden_dim),
            nn.ReLU(),
            Dropout(dropout),
            nn.Linear(hidden_dim, model_dim),
            Dropout(dropout),
        )

    @override
    def forward(self, x: Inputs) -> Inputs:
        return self.layers(x)
