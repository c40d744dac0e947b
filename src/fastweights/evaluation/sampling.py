"""Continuing a text with a language model, token by token: constant memory and time per token, however long it gets."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from fastweights.models.predictor import Predictor

PROMPT_SEGMENT = 512
"""Tokens of the prompt that are read at once."""


@runtime_checkable
class Generator(Predictor, Protocol):
    """A model that tells the probability of every word."""

    def log_probabilities(self, hidden: Tensor) -> Tensor:
        """log p of every word of the vocabulary."""


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

    def choose(self, log_probabilities: Float[Tensor, " vocabulary"], generator: torch.Generator) -> int:
        """Draw a word."""
        if not log_probabilities.logsumexp(dim=0).isfinite():
            raise FloatingPointError("the model's probabilities are not finite, so no word can be drawn")
        if self.temperature == 0:
            return int(log_probabilities.argmax())
        # Relative to the likeliest, whose score is 0 then: the others may be -∞ at tiny temperatures.
        relative = log_probabilities.double() - log_probabilities.max()
        scores, words = (relative / self.temperature).sort(descending=True, stable=True)
        if self.top_k:
            scores, words = scores[: self.top_k], words[: self.top_k]
        probabilities = scores.softmax(dim=0)
        # A word is kept while those before it make up less than top_p; the first always is.
        kept = probabilities.cumsum(dim=0) - probabilities < self.top_p
        kept[0] = True
        drawn = torch.multinomial(probabilities * kept, 1, generator=generator)
        return int(words[drawn])


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
    states: list[Any] | None = None
    given = torch.tensor(prompt, dtype=torch.int64, device=device)[None]
    for part in given.split(PROMPT_SEGMENT, dim=1):
        hidden, states = _step(model, part, states)
    while True:
        with torch.inference_mode():
            log_probabilities = model.log_probabilities(hidden[:, -1:])[0, 0].cpu()
        word = sampling.choose(log_probabilities, generator)
        yield word
        hidden, states = _step(model, torch.tensor([[word]], device=device), states)


def _step(model: Predictor, tokens: Tensor, states: list[Any] | None) -> tuple[Tensor, list[Any]]:
    with torch.inference_mode():
        hidden, after = model(tokens, states)
    return hidden, after
