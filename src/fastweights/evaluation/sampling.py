"""Continuing a text with a language model, token by token: constant memory and time per token, however long it gets."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from fastweights.layers.word_scores import WordScores
from fastweights.memory import LayerState
from fastweights.models.predictor import Predictor

PROMPT_SEGMENT = 512
"""Tokens of the prompt that are read at once."""


@runtime_checkable
class Generator(Predictor, Protocol):
    """A model that tells the probabilities of words, of rare ones only if they are asked for."""

    def scores(self, hidden: Tensor) -> WordScores:
        """log p of the words that can follow one hidden vector."""


@dataclass(frozen=True)
class Sampling:
    """p(x) ∝ p_model(x)^(1/temperature), over the `top_k` likeliest words and those that make up `top_p` of the rest.

    Temperature 0 takes the likeliest word every time; `top_k=0` and `top_p=1` leave nothing out.
    """

    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    seed: int = 0

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < float("inf"):
            raise ValueError(f"temperature: expected 0 or more, got {self.temperature}")
        if self.top_k < 0:
            raise ValueError(f"top_k: expected 0 (all words) or more, got {self.top_k}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p: expected a share above 0 and up to 1, got {self.top_p}")

    def choose(self, scores: WordScores, generator: torch.Generator) -> int:
        """Draw a word, looking into as few clusters of words as possible; their number changes no probability."""
        if self.temperature == 0:
            return scores.likeliest()
        if not self.top_k and self.top_p == 1:
            return draw(scores, self.temperature, generator)
        candidates, words = self._candidates(scores)
        # Relative to the likeliest, whose score is 0 then: the others may be -∞ at tiny temperatures.
        relative, order = ((candidates - candidates.max()) / self.temperature).sort(descending=True, stable=True)
        if self.top_k:
            relative, order = relative[: self.top_k], order[: self.top_k]
        # Without top_k and at temperature 1 the clusters that were left out have the rest of the probability.
        whole = not self.top_k and self.temperature == 1
        probabilities = (relative + candidates.max()).exp() if whole else relative.softmax(dim=0)
        # A word is kept while those before it make up less than top_p; the first always is.
        kept = probabilities.cumsum(dim=0) - probabilities < self.top_p
        kept[0] = True
        drawn = torch.multinomial(probabilities * kept, 1, generator=generator)
        return int(words[order[drawn]])

    def _candidates(self, scores: WordScores) -> tuple[Tensor, Tensor]:
        """log p of words among which are all that `top_k` and `top_p` keep, and which words these are."""
        while True:
            known, words = scores.known()
            known = known.double()
            if self.top_k:
                enough = len(known) >= self.top_k
                least = float(known.topk(self.top_k).values[-1]) if enough else -math.inf
            elif self.temperature == 1:
                sorted_scores = known.sort(descending=True).values
                before = (sorted_scores.exp().cumsum(dim=0) < self.top_p).sum()
                least = float(sorted_scores[before]) if before < len(known) else -math.inf
            else:
                # The sum over all words decides about what makes up top_p.
                least = -math.inf
            if not scores.evaluate(above=least):
                return known, words


def draw(scores: WordScores, temperature: float, generator: torch.Generator) -> int:
    """A word with probability ∝ p(w)^(1/T), by rejection: a cluster is looked into only once it is drawn.

    Σ_w p(w | c)^(1/T) over a cluster of n words is at most 1 for T ≤ 1 and at most n^(1 - 1/T) for T > 1. The cluster
    is drawn with p(c)^(1/T) times that bound and kept with the true sum over the bound, which is then known.
    """
    frequent, looked_into = len(scores.frequent), set[int]()
    # T log of what a word or a cluster is drawn with, up to a factor.
    bounds = scores.head.double()
    if temperature > 1 and scores.clusters:
        sizes = torch.tensor([scores.size(number) for number in range(len(scores.clusters))], dtype=torch.float64)
        bounds = torch.cat([bounds[:frequent], bounds[frequent:] + (temperature - 1) * sizes.log()])
    while True:
        drawn = int(torch.multinomial(((bounds - bounds.max()) / temperature).exp_(), 1, generator=generator))
        number = drawn - frequent
        if number < 0:
            return drawn
        words = scores.words_of(number).double()
        # Relative to the likeliest: no temperature makes all of them vanish.
        relative = (words - words.max()) / temperature
        total = float(words.max() + temperature * relative.logsumexp(dim=0))
        share = math.exp(min(0.0, (total - float(bounds[drawn])) / temperature))
        if number in looked_into or float(torch.rand((), dtype=torch.float64, generator=generator)) < share:
            return scores.bounds[number] + int(torch.multinomial(relative.exp_(), 1, generator=generator))
        looked_into.add(number)
        bounds = bounds.clone()
        bounds[drawn] = total


def generate(
    model: Generator,
    prompt: Sequence[int],
    sampling: Sampling = Sampling(),  # noqa: B008  a frozen value
    *,
    device: torch.device | str = "cpu",
) -> Iterator[int]:
    """Endless words that continue a prompt of at least one token; only the memory of the past is kept."""
    if not prompt:
        raise ValueError("prompt: expected at least one token to start from, got none")
    assert isinstance(model, nn.Module)
    model.eval()
    generator = torch.Generator().manual_seed(sampling.seed)
    states: list[LayerState] | None = None
    given = torch.tensor(prompt, dtype=torch.int64, device=device)[None]
    for part in given.split(PROMPT_SEGMENT, dim=1):
        hidden, states = _step(model, part, states)
    while True:
        with torch.inference_mode():
            word = sampling.choose(model.scores(hidden[0, -1]), generator)
        yield word
        hidden, states = _step(model, torch.tensor([[word]], device=device), states)


def _step(model: Predictor, tokens: Tensor, states: list[LayerState] | None) -> tuple[Tensor, list[LayerState]]:
    with torch.inference_mode():
        return model(tokens, states)
