"""Perplexity of a model on a stream of tokens, by the ways of giving it context that the paper uses (Sec. 6.3, App. E).

    perplexity = exp( -1/(N-1) Σ_{i=2..N} log p(x_i | context of x_i) )

Every token of the stream but the first is scored once, `<eos>` included, whatever the way.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from typing_extensions import override

from fastweights.data.text.cache import TokenArray
from fastweights.memory import LayerState
from fastweights.models.predictor import Predictor


@dataclass(frozen=True)
class Score:
    """The mean loss over the scored tokens."""

    loss: float
    tokens: int
    context: str
    """How the model was given context, in words."""

    @property
    def perplexity(self) -> float:
        """exp(loss)."""
        return perplexity_of(self.loss)


def perplexity_of(loss: float | None) -> float:
    """exp of a loss; infinite where a float cannot hold it, and for the null of one that was not finite."""
    return math.inf if loss is None or loss > 700 else math.exp(loss)


@dataclass(frozen=True)
class Piece:
    """Rows of tokens that the model reads at once, and how many of their last positions count."""

    starts: range
    length: int
    scored: int
    continues: bool = False
    """True if the states of the piece before are carried into this one."""


@dataclass(frozen=True)
class Context(ABC):
    """How much of the stream before a token the model sees when it predicts it."""

    @abstractmethod
    def pieces(self, targets: int) -> Iterator[Piece]:
        """Pieces that score each of the targets 1 … `targets` of a stream exactly once."""

    @abstractmethod
    def __str__(self) -> str:
        """The way in words."""


@dataclass(frozen=True)
class SlidingWindow(Context):
    """Windows of `length` tokens that start empty and move on by `stride`; each scores only what the last did not.

    `stride=1` is the paper's evaluation: every token after the first window is predicted from exactly `length` tokens.
    A larger stride costs less and gives some tokens less context, down to `length - stride + 1`.
    """

    length: int
    stride: int = 1
    batch_size: int = 32

    def __post_init__(self) -> None:
        _check_sizes(self.length, self.batch_size)
        if not 1 <= self.stride <= self.length:
            raise ValueError(f"stride: expected 1 to the window's length {self.length}, got {self.stride}")

    @override
    def pieces(self, targets: int) -> Iterator[Piece]:
        first = min(self.length, targets)
        yield Piece(range(1), first, first)
        rest = targets - first
        whole = rest // self.stride
        for done in range(0, whole, self.batch_size):
            many = min(self.batch_size, whole - done)
            yield Piece(
                range((done + 1) * self.stride, (done + many) * self.stride + 1, self.stride), first, self.stride
            )
        if rest % self.stride:
            yield Piece(range(rest, rest + 1), first, rest % self.stride)

    @override
    def __str__(self) -> str:
        paper = " (as in the paper)" if self.stride == 1 else ""
        return f"sliding window of {self.length}, stride {self.stride}{paper}"


@dataclass(frozen=True)
class IndependentSegments(Context):
    """Segments of `length` tokens, each from an empty memory: cheap, and pessimistic about the first tokens of each."""

    length: int
    batch_size: int = 32

    def __post_init__(self) -> None:
        _check_sizes(self.length, self.batch_size)

    @override
    def pieces(self, targets: int) -> Iterator[Piece]:
        return CarriedState(self.length, self.length, self.batch_size).pieces(targets)

    @override
    def __str__(self) -> str:
        return f"independent segments of {self.length}"


@dataclass(frozen=True)
class CarriedState(Context):
    """One pass over the stream in segments of `length`, the memory carried from each to the next (Table 4).

    It starts empty, and is reset after every `reach` tokens if that is given.
    """

    length: int
    reach: int | None = None
    batch_size: int = 32
    """Stretches between two empty memories that are read side by side."""

    def __post_init__(self) -> None:
        _check_sizes(self.length, self.batch_size)
        if self.reach is not None and self.reach < 1:
            raise ValueError(f"reach: expected at least 1 token, got {self.reach}")

    @override
    def pieces(self, targets: int) -> Iterator[Piece]:
        reach = min(self.reach or targets, targets)
        whole, rest = divmod(targets, reach)
        for done in range(0, whole, self.batch_size):
            yield from self._stretches(done * reach, min(self.batch_size, whole - done), reach)
        if rest:
            yield from self._stretches(whole * reach, 1, rest)

    def _stretches(self, first: int, count: int, reach: int) -> Iterator[Piece]:
        """So many stretches of `reach` tokens from `first` on, segment by segment."""
        for start in range(0, reach, self.length):
            length = min(self.length, reach - start)
            starts = range(first + start, first + start + (count - 1) * reach + 1, reach)
            yield Piece(starts, length, length, continues=start > 0)

    @override
    def __str__(self) -> str:
        far = "the whole text" if self.reach is None else f"stretches of {self.reach}"
        return f"memory carried over {far}, segments of {self.length}"


def evaluate(
    model: Predictor,
    tokens: TokenArray,
    context: Context,
    *,
    device: torch.device | str = "cpu",
    interrupted: Callable[[], bool] = lambda: False,
    on_progress: Callable[[int, int], None] = lambda done, total: None,
    on_losses: Callable[[Piece, Tensor], None] = lambda piece, losses: None,
) -> Score | None:
    """The model's score on a stream; None if it was interrupted. Dropout is off, and nothing in the model changes.

    `on_losses` is shown every piece with the loss of each of its scored tokens.
    """
    targets = len(tokens) - 1
    if targets < 1:
        raise ValueError(f"tokens: a stream of {len(tokens)} has nothing to predict; expected at least 2")
    assert isinstance(model, nn.Module)
    training = [part for part in model.modules() if part.training]
    model.eval()
    total, done = 0.0, 0
    states: list[LayerState] | None = None
    try:
        with torch.inference_mode():
            for piece in context.pieces(targets):
                if interrupted():
                    return None
                inputs, wanted = _read(tokens, piece, device)
                hidden, states = model(inputs, states if piece.continues else None)
                losses = model.losses(hidden[:, -piece.scored :], wanted)
                total += float(losses.double().sum())
                done += losses.numel()
                on_losses(piece, losses)
                on_progress(done, targets)
    finally:
        for part in training:
            part.training = True
    assert done == targets
    return Score(total / done, done, str(context))


def _read(tokens: TokenArray, piece: Piece, device: torch.device | str) -> tuple[Tensor, Tensor]:
    """The input of the model, and the words that its last positions have to predict."""
    rows = np.stack([tokens[start : start + piece.length + 1] for start in piece.starts]).astype(np.int64)
    read = torch.from_numpy(rows).to(device)
    return read[:, :-1].contiguous(), read[:, -piece.scored :].contiguous()


def _check_sizes(length: int, batch_size: int) -> None:
    if length < 1 or batch_size < 1:
        raise ValueError(f"length and batch_size: expected at least 1, got {length} and {batch_size}")
