"""Tied input embedding and adaptive softmax for large vocabularies (Grave et al., 2017; App. E)."""

from itertools import pairwise

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn.functional import embedding
from typing_extensions import override

from fastweights.kernels.native.generation import few_rows
from fastweights.kernels.transforms import active_transform
from fastweights.layers.exact.softmax_loss import log_probabilities, softmax_losses
from fastweights.layers.word_scores import WordScores
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
        """-log p(target) at every position; a cluster is evaluated only at positions whose target lies in it.

        Compilers and torch.func, which cannot know where these are, evaluate every cluster at every position.
        """
        if torch.compiler.is_compiling() or active_transform() != "none":
            return -self.log_probabilities(hidden).gather(-1, targets[..., None])[..., 0]
        flat, words = hidden.flatten(0, 1), targets.flatten().contiguous()
        (weights, bias), *tails = self._clusters()
        clusters = torch.bucketize(words, torch.tensor(self.cutoffs, device=words.device), right=True)
        head_size = self.cutoffs[0] if self.cutoffs else self.vocabulary_size
        losses = softmax_losses(flat, weights, bias, torch.where(clusters == 0, words, head_size + clusters - 1))
        for number, (weights, bias) in enumerate(tails):
            rows = (clusters == number + 1).nonzero()[:, 0]
            if rows.numel():
                within = softmax_losses(flat[rows], weights, bias, words[rows] - self.cutoffs[number])
                losses = losses.index_add(0, rows, within)
        return losses.view(targets.shape)

    def log_probabilities(self, hidden: Inputs) -> Float[Tensor, "b t vocabulary"]:
        """log p of every word at every position."""
        head, *tails = (log_probabilities(few_rows(hidden, *cluster)) for cluster in self._clusters())
        if not self.cutoffs:
            return head
        frequent, *clusters = head.split([self.cutoffs[0], *(1 for _ in tails)], dim=-1)
        return torch.cat([frequent, *(cluster + tail for cluster, tail in zip(clusters, tails, strict=True))], dim=-1)

    def scores(self, hidden: Float[Tensor, " model"]) -> WordScores:
        """log p of every word for one position, a cluster's words only once they are asked for."""
        bounds = (*self.cutoffs, self.vocabulary_size)
        logits = few_rows(hidden, self.table[: bounds[0]], self.bias[: bounds[0]])
        if self.cutoffs:
            logits = torch.cat([logits, few_rows(hidden, self.cluster_table, self.cluster_bias)])

        def within(number: int) -> Tensor:
            words = slice(bounds[number], bounds[number + 1])
            return log_probabilities(few_rows(hidden, self.table[words], self.bias[words])).cpu()

        return WordScores(log_probabilities(logits).cpu(), bounds, within)

    def _clusters(self) -> list[tuple[Tensor, Tensor]]:
        """Weights and biases of the head (frequent words, then clusters) and of each tail."""
        bounds = (0, *self.cutoffs, self.vocabulary_size)
        sizes = [high - low for low, high in pairwise(bounds)]
        # Split, not sliced: the gradient of each slice would be another whole table, mostly zeros.
        (frequent, *tables), (frequent_bias, *biases) = self.table.split(sizes), self.bias.split(sizes)
        head = torch.cat([frequent, self.cluster_table]), torch.cat([frequent_bias, self.cluster_bias])
        return [head, *zip(tables, biases, strict=True)]
