"""One table for the embeddings of both languages and the softmax over words (Press & Wolf, 2017)."""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding
from typing_extensions import override

from fastweights.kernels.native.generation import few_rows
from fastweights.layers.exact.softmax_loss import log_probabilities, softmax_losses
from fastweights.shapes import Inputs

Tokens = Int[Tensor, "b t"]


class TiedEmbedding(nn.Module):
    """x = √D E_w,   p(w) = softmax(E h)_w.

    Embeddings are of the size of the positions added to them. They start as N(0, 1/D), that of padding as 0.
    """

    def __init__(self, vocabulary_size: int, model_dim: int, padding: int = 0) -> None:
        super().__init__()
        self.model_dim = model_dim
        self.table = nn.Parameter(torch.empty(vocabulary_size, model_dim))
        nn.init.normal_(self.table, std=model_dim**-0.5)
        with torch.no_grad():
            self.table[padding].zero_()

    @override
    def forward(self, tokens: Tokens) -> Inputs:
        return embedding(tokens, self.table) * self.model_dim**0.5

    def losses(self, hidden: Inputs, labels: Tokens, smoothing: float = 0.0) -> Float[Tensor, " targets"]:
        """The loss of every label that is a target: a negative label is none.

        (1 - ε - e) nll + e Σ_v nll_v with e = ε / (V - 1): all other words share ε of the probability.
        """
        real = labels >= 0
        return softmax_losses(hidden[real], self.table, None, labels[real], smoothing)

    def log_probabilities(self, hidden: Inputs) -> Float[Tensor, "b t vocabulary"]:
        """log p of every word at every position."""
        return log_probabilities(few_rows(hidden, self.table))
