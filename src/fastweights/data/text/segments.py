"""Streams cut into columns and segments: what a training step sees, as a pure function of (seed, epoch, step)."""

from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Int64
from torch import Tensor

from fastweights.data.text.cache import TokenArray

Tokens = Int64[Tensor, "b t"]


@dataclass(frozen=True, eq=False)
class Segment:
    """Inputs x_i … x_{i+t-1} and targets x_{i+1} … x_{i+t} of every column."""

    inputs: Tokens
    targets: Tokens
    epoch: int
    first: bool
    """True if it starts an epoch: the state after the segment before does not belong to it."""
    reset: Bool[Tensor, "b"] | None = None
    """Columns that begin with an empty memory, if only some of them do."""
    before: Int64[Tensor, "b s"] | None = None
    """Earlier tokens of the columns, for a memory that is written by the weights of now."""


@dataclass(frozen=True, eq=False)
class SegmentStream:
    """Column c is the c-th of `batch_size` equal, contiguous pieces of the stream; a step is one segment of each.

    Segments come in order, so that each continues the one before, and the last of an epoch may be shorter; with
    `shuffle` each epoch has an order of its own. What does not fill a column is left out.
    """

    tokens: TokenArray
    batch_size: int
    length: int
    shuffle: bool = False
    seed: int = 0

    def __post_init__(self) -> None:
        if self.batch_size < 1 or self.length < 1:
            raise ValueError(f"batch_size and length: expected at least 1, got {self.batch_size} and {self.length}")
        if self.column_length < 2:
            raise ValueError(
                f"batch_size: {len(self.tokens)} tokens cannot fill {self.batch_size} columns with 2 tokens each; "
                f"possible: up to {len(self.tokens) // 2}"
            )
        if self.shuffle and self.seed < 0:
            raise ValueError(f"seed: expected 0 or more to shuffle with, got {self.seed}")

    @property
    def column_length(self) -> int:
        """Tokens of a column; all but the first are targets."""
        return len(self.tokens) // self.batch_size

    @property
    def segments(self) -> int:
        """Segments, and so steps, of an epoch."""
        return -(-(self.column_length - 1) // self.length)

    def at(self, step: int, columns: slice = slice(None)) -> Segment:
        """The segment of a step, counted from 0 over all epochs; only some of its columns if asked."""
        epoch, place = divmod(step, self.segments)
        number = int(self._order(epoch)[place]) if self.shuffle else place
        start = number * self.length
        end = min(start + self.length, self.column_length - 1)
        rows = np.arange(self.batch_size)[columns] * self.column_length
        read = np.stack([self.tokens[row + start : row + end + 1] for row in rows]).astype(np.int64)
        tokens = torch.from_numpy(read)
        return Segment(tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous(), epoch, first=place == 0)

    def before(self, step: int, segments: int, columns: slice = slice(None)) -> Tokens:
        """The tokens of the last so many segments before that of a step, all of its epoch."""
        place = step % self.segments
        start, end = (place - segments) * self.length, place * self.length
        rows = np.arange(self.batch_size)[columns] * self.column_length
        return torch.from_numpy(np.stack([self.tokens[row + start : row + end] for row in rows]).astype(np.int64))

    def _order(self, epoch: int) -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
        return np.random.default_rng([self.seed, epoch]).permutation(self.segments)
