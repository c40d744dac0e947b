"""Reading a text with a model whose memories are recorded: traces, losses by position, and a window in detail."""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from fastweights.evaluation.perplexity import CarriedState, Piece, evaluate, perplexity_of
from fastweights.evaluation.positions import edges_up_to
from fastweights.experiments.look.subject import Subject
from fastweights.memory import Observation, Recording, observe, record
from fastweights.memory.influence import Influences, influences

KEPT_WRITES, SPECTRA = 4096, 48
"""Writes of every layer that are kept for the page, and how often the memory's singular values are taken."""


@dataclass(frozen=True)
class Window:
    """A short stretch of the text in detail: the traces of every layer there, and who erased and read whom."""

    first: int
    symbols: tuple[str, ...]
    traces: Recording
    influences: dict[str, Influences | None]


@dataclass(frozen=True)
class Looked:
    """A recording of a model's memories over a text, with its losses."""

    subject: Subject
    reach: int | None
    traces: Recording
    carried: NDArray[np.float64]
    """The loss of every token but the first, with the memory carried on."""
    reset: NDArray[np.float64]
    """The same with the memory reset after every segment."""
    window: Window

    def perplexities(self) -> list[tuple[int, int, float, float]]:
        """First and last position of a stretch of the text, and its perplexities: memory carried on, memory reset."""
        return [
            (a, b, perplexity_of(float(self.carried[a:b].mean())), perplexity_of(float(self.reset[a:b].mean())))
            for a, b in pairwise(edges_up_to(len(self.carried)))
        ]


def look(subject: Subject, *, reach: int | None = None, first: int | None = None, width: int = 48) -> Looked:
    """Read the text of a subject; the window of `width` tokens starts at `first`, or in the middle of the text."""
    count = len(subject.tokens) - 1
    width = min(width, count)
    given, first = first, (count - width) // 2 if first is None else first
    if reach is not None:
        # Inside one stretch: a reset in the window would show erasures that never happen.
        first = first if given is not None else first // reach * reach
        width = min(width, reach - first % reach)
    if width < 1 or not 0 <= first <= count - width:
        raise ValueError(f"window: {width} tokens from {first} on are not inside a text of {count + 1} tokens")
    with record(subject.model, limit=KEPT_WRITES, spectra_every=max(count // SPECTRA, 1)) as seen:
        carried = _losses(subject, CarriedState(subject.segment_length, reach, batch_size=1))
    reset = _losses(subject, CarriedState(subject.segment_length, subject.segment_length))
    return Looked(subject, reach, seen, carried, reset, _window(subject, reach, first, width))


def _losses(subject: Subject, context: CarriedState) -> NDArray[np.float64]:
    losses = np.zeros(len(subject.tokens) - 1)

    def fill(piece: Piece, found: Tensor) -> None:
        for row, start in zip(found.double().numpy(), piece.starts, strict=True):
            losses[start : start + piece.scored] = row

    evaluate(subject.model, subject.tokens, context, on_losses=fill)
    return losses


@torch.inference_mode()
def _window(subject: Subject, reach: int | None, first: int, width: int) -> Window:
    """The window, read with the memory that the text before it left."""
    begin = 0 if reach is None else first // reach * reach
    states = None
    tokens = torch.from_numpy(np.asarray(subject.tokens, dtype=np.int64))[None]
    for start in range(begin, first, subject.segment_length):
        _, states = subject.model(tokens[:, start : min(start + subject.segment_length, first)], states)
    inside = tokens[:, first : first + width]
    shown: dict[str, Observation] = {}
    with observe(subject.model, lambda name: lambda observation: shown.update({name: observation})):
        subject.model(inside, states)
    with record(subject.model) as seen:
        subject.model(inside, states)
    found = {name: influences(observation) for name, observation in shown.items()}
    return Window(first, tuple(subject.symbols(first, first + width)), seen, found)
