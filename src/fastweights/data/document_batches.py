"""Batches of sentence pairs in the order of their documents, for memories that go on from sentence to sentence."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from fastweights.data.translation import PairedSentences
from fastweights.data.translation_batches import TranslationBatch, batch_of, with_end


@dataclass(frozen=True, eq=False)
class DocumentBatches:
    """The pairs in as many stretches as there are `columns`; batch i has the i-th pair of every stretch, in its row.

    Pairs with a side of more than `longest` tokens, `</s>` included, are left out, and at the end those that are too
    few for a batch.
    """

    pairs: PairedSentences
    columns: int
    longest: int

    def __post_init__(self) -> None:
        if len(self._kept) < self.columns:
            raise ValueError(
                f"batch_size: {len(self._kept)} of {len(self.pairs)} pairs have at most {self.longest} tokens a side, "
                f"too few for {self.columns} rows"
            )

    def __len__(self) -> int:
        """Batches of an epoch: the pairs of a stretch."""
        return len(self._kept) // self.columns

    def __iter__(self) -> Iterator[TranslationBatch]:
        """The batches of an epoch."""
        return (self.at(step) for step in range(len(self)))

    @property
    def left_out(self) -> int:
        """Pairs that are too long, or too few for a batch."""
        return len(self.pairs) - len(self) * self.columns

    def at(self, step: int, columns: slice = slice(None), parts: int = 1) -> TranslationBatch:
        """The batch of a step, counted from 0 over all epochs, or some columns of it, a share of `parts`."""
        rows = self._stretches[:, step % len(self)]
        return batch_of(self.pairs, rows[columns], rows, parts)

    @cached_property
    def _kept(self) -> NDArray[np.int64]:
        return np.flatnonzero(np.maximum(*with_end(self.pairs)) <= self.longest)

    @cached_property
    def _stretches(self) -> NDArray[np.int64]:
        """The numbers of the pairs, a row for each stretch."""
        return self._kept[: len(self) * self.columns].reshape(self.columns, len(self))
