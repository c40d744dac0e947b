"""Tied input embedding and adaptive softmax for large vocabularies (Grave et al., 2017; App. E)."""

from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding, linear, log_softmax
from typing_extensions import override

from fastweights.shapes import Inputs

Tokens = Int[Tensor, "b t"]


class AdaptiveEmbedding(nn.Module):
    """p(w) = p_head(w) for frequent words, p_head(cluster of w) · p_tail(w | cluster) for the others.

    Words are numbered by falling frequency; `cutoffs` are the first words of the tail clusters. One table of full
    width serves as input embedding and output weights; a word's logit is its row times the hidden vector, plus a bias.
    """

    def __init__(self, vocabulary_size: int, model_dim: int, cutoffs: tuple[int, ...] = ()) -> None:
        super().__init__()
        bounds = (0, *cutoffs, vocabulary_size)
        if any(low >= high for low, high in pairwise(bounds)):
            raise ValueError(f"cutoffs: expected increasing numbers between 0 and {vocabulary_size}, got {cutoffs}")
        self.vocabulary_size, self.model_dim, self.cutoffs = vocabulary_size, model_dim, cutoffs
        self.table = nn.Parameter(torch.empty(vocabulary_size, model_dim))
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))
        self.cluster_table = nn.Parameter(torch.empty(len(cutoffs), model_dim))
        self.cluster_bias = nn.Parameter(torch.zeros(len(cutoffs)))
        nn.init.normal_(self.table, std=0.02)
        nn.init.normal_(self.cluster_table, std=0.02)

    @override
    def forward(self, tokens: Tokens) -> Inputs:
        """The embeddings, times √D so that they are of the size of the positions added to them."""
        return embedding(tokens, self.table) * self.model_dim**0.5

    def losses(self, hidden: Inputs, targets: Tokens) -> Float[Tensor, "b t"]:
        """-log p(target) at every position; a cluster's words are looked at only where a target lies in it."""
        flat, words = hidden.flatten(0, 1), targets.flatten().contiguous()
        head = self._head(flat)
        head_size = self.cutoffs[0] if self.cutoffs else self.vocabulary_size
        clusters = torch.bucketize(words, torch.tensor(self.cutoffs, device=words.device), right=True)
        in_head = torch.where(clusters == 0, words, head_size + clusters - 1)
        losses = -head.gather(1, in_head[:, None])[:, 0]
        for number, (low, high) in enumerate(self._tails):
            rows = (clusters == number + 1).nonzero()[:, 0]
            if rows.numel():
                tail = _log_softmax(linear(flat[rows], self.table[low:high], self.bias[low:high]))
                losses = losses.index_add(0, rows, -tail.gather(1, words[rows, None] - low)[:, 0])
        return losses.view(targets.shape)

    def log_probabilities(self, hidden: Inputs) -> Float[Tensor, "b t vocabulary"]:
        """log p of every word at every position."""
        head = self._head(hidden)
        if not self.cutoffs:
            return head
        head_size = self.cutoffs[0]
        parts = [head[..., :head_size]]
        for number, (low, high) in enumerate(self._tails):
            tail = _log_softmax(linear(hidden, self.table[low:high], self.bias[low:high]))
            parts.append(head[..., head_size + number, None] + tail)
        return torch.cat(parts, dim=-1)

    @property
    def _tails(self) -> list[tuple[int, int]]:
        return list(pairwise((*self.cutoffs, self.vocabulary_size)))

    def _head(self, hidden: Tensor) -> Tensor:
        """log p of the frequent words, then of the clusters."""
        size = self.cutoffs[0] if self.cutoffs else self.vocabulary_size
        weights = torch.cat([self.table[:size], self.cluster_table])
        return _log_softmax(linear(hidden, weights, torch.cat([self.bias[:size], self.cluster_bias])))


def _log_softmax(logits: Tensor) -> Tensor:
    return log_softmax(logits.to(torch.promote_types(logits.dtype, torch.float32)), dim=-1)
