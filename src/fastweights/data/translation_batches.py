"""Batches of sentence pairs by token budget: what a training step sees, as a pure function of (seed, epoch, step)."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from jaxtyping import Bool, Int64
from numpy.typing import NDArray
from torch import Tensor

from fastweights.data.translation import PairedSentences, Sentences
from fastweights.data.translation_tokeniser import END, PAD, START

IGNORED = -100
"""The label of a position that is no target."""


@dataclass(frozen=True, eq=False)
class TranslationBatch:
    """Rows of x₁ … xₘ </s>, of <s> y₁ … yₙ and of y₁ … yₙ </s>, padded on the right.

    A batch may be a part of a step's batch. `tokens_of_step` counts the real targets of all `parts`: the mean of
    parts · Σ loss / tokens_of_step over the parts is the loss per real target token, however many each part has.
    """

    source: Int64[Tensor, "b s"]
    source_mask: Bool[Tensor, "b s"]
    inputs: Int64[Tensor, "b t"]
    labels: Int64[Tensor, "b t"]
    pairs: Int64[Tensor, " b"]
    """Which pairs of the corpus the rows are."""
    tokens_of_step: int
    parts: int = 1

    @property
    def tokens(self) -> int:
        """Real target tokens, `</s>` among them."""
        return int((self.labels != IGNORED).sum())

    @property
    def weight(self) -> float:
        """What the sum of this part's losses is multiplied by, so that the mean over the parts is that per token."""
        return self.parts / self.tokens_of_step

    def to(self, device: torch.device | str) -> "TranslationBatch":
        """The batch on a device; the host does not wait for the copy."""
        names = ("source", "source_mask", "inputs", "labels", "pairs")
        return replace(self, **{name: getattr(self, name).to(device, non_blocking=True) for name in names})


@dataclass(frozen=True, eq=False)
class PairBatches:
    """As many pairs of similar length as fit: rows × the longest side, padding included, is at most `token_budget`.

    Pairs are sorted by length and cut into batches; each epoch shuffles pairs of equal lengths among themselves and
    the batches as wholes, so that every epoch has as many batches. Pairs with a side of more than `longest` tokens,
    `</s>` included, are left out. Without `shuffle` the batches come from the shortest pairs to the longest.
    """

    pairs: PairedSentences
    token_budget: int
    longest: int = 256
    shuffle: bool = True
    seed: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.longest <= self.token_budget:
            raise ValueError(
                f"token_budget: expected at least the {self.longest} tokens that the longest sentence may have, "
                f"got {self.token_budget}"
            )
        if self.seed < 0:
            raise ValueError(f"seed: expected 0 or more, got {self.seed}")
        if not len(self._kept):
            raise ValueError(f"longest: none of the {len(self.pairs)} pairs has at most {self.longest} tokens a side")

    @property
    def left_out(self) -> int:
        """Pairs that are too long."""
        return len(self.pairs) - len(self._kept)

    @property
    def batches(self) -> int:
        """Batches, and so steps, of an epoch."""
        return len(self._starts)

    def __iter__(self) -> Iterator[TranslationBatch]:
        """The batches of the first epoch."""
        return (self.at(step) for step in range(self.batches))

    def at(self, step: int, part: int = 0, parts: int = 1) -> TranslationBatch:
        """The batch of a step, counted from 0 over all epochs, or one of `parts` shares of its rows.

        Shares are padded to the width of the whole batch. A share without a row, where a batch has too few, gets one
        row without targets.
        """
        mine, rows = self.rows(step, part, parts), self._rows(step)
        batch = batch_of(self.pairs, mine, rows, parts)
        if part >= len(rows):
            batch.labels.fill_(IGNORED)
        return batch

    def rows(self, step: int, part: int = 0, parts: int = 1) -> NDArray[np.int64]:
        """The pairs of `at`."""
        if not 0 <= part < parts or step < 0:
            raise ValueError(f"part: expected a step from 0 and a part below {parts}, got step {step}, part {part}")
        rows = self._rows(step)
        return rows[part::parts] if part < len(rows) else rows[:1]

    def _rows(self, step: int) -> NDArray[np.int64]:
        """The pairs of a step's batch."""
        epoch, place = divmod(step, self.batches)
        order, places = self._order(epoch)
        place = int(places[place])
        end = self._starts[place + 1] if place + 1 < self.batches else len(order)
        return self._kept[order[self._starts[place] : end]]

    def _order(self, epoch: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The sorted pairs and the batches in the order of an epoch; that of the latest one asked for is kept."""
        if not self.shuffle:
            return self._sorted, np.arange(self.batches)
        if epoch not in self._latest:
            draw = np.random.default_rng([self.seed, epoch])
            # Sorting by the group of equal lengths, then at random, leaves every batch with the lengths it had.
            order = self._sorted[np.lexsort((draw.random(len(self._sorted)), self._groups))]
            self._latest.clear()
            self._latest[epoch] = order, draw.permutation(self.batches)
        return self._latest[epoch]

    @cached_property
    def _latest(self) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
        return {}

    @cached_property
    def _lengths(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Tokens of both sides of every pair, one special symbol included."""
        return with_end(self.pairs)

    @cached_property
    def _kept(self) -> NDArray[np.int64]:
        return np.flatnonzero(np.maximum(*self._lengths) <= self.longest)

    @cached_property
    def _sorted(self) -> NDArray[np.int64]:
        """Places in `_kept` by rising length, target first."""
        source, target = (lengths[self._kept] for lengths in self._lengths)
        return np.lexsort((source, target))

    @cached_property
    def _groups(self) -> NDArray[np.int64]:
        """The number of each sorted pair's group of equal lengths."""
        source, target = (lengths[self._kept][self._sorted] for lengths in self._lengths)
        changes = (np.diff(source) != 0) | (np.diff(target) != 0)
        return np.concatenate([[0], np.cumsum(changes)])

    @cached_property
    def _starts(self) -> list[int]:
        """Where each batch starts among the sorted pairs."""
        longest = np.maximum(*(lengths[self._kept][self._sorted] for lengths in self._lengths)).tolist()
        starts, width = [0], 0
        for place, length in enumerate(longest):
            width = max(width, length)
            if (place - starts[-1] + 1) * width > self.token_budget:
                starts.append(place)
                width = length
        return starts


def with_end(pairs: PairedSentences) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Tokens of both sides of every pair, one special symbol included."""
    return pairs.source.lengths + 1, pairs.target.lengths + 1


def batch_of(
    pairs: PairedSentences, mine: NDArray[np.int64], rows: NDArray[np.int64], parts: int = 1
) -> TranslationBatch:
    """Some rows of a step's batch, padded to the width of all of its rows; a share of `parts`."""
    source_lengths, target_lengths = pairs.source.lengths[rows] + 1, pairs.target.lengths[rows] + 1
    source = _rows_with_end(pairs.source, mine, int(source_lengths.max()))
    target = _rows_with_end(pairs.target, mine, int(target_lengths.max()))
    shifted = np.concatenate([np.full((len(mine), 1), START), target[:, :-1]], axis=1)
    return TranslationBatch(
        source=torch.from_numpy(source),
        source_mask=torch.from_numpy(source != PAD),
        # After the last label there is no input either.
        inputs=torch.from_numpy(np.where(target == PAD, PAD, shifted)),
        labels=torch.from_numpy(np.where(target == PAD, IGNORED, target)),
        pairs=torch.from_numpy(mine),
        tokens_of_step=int(target_lengths.sum()),
        parts=parts,
    )


def _rows_with_end(sentences: Sentences, numbers: NDArray[np.int64], width: int) -> NDArray[np.int64]:
    """Sentences as rows, each with `</s>` behind it and padding up to the width."""
    starts, lengths = sentences.offsets[numbers][:, None], sentences.lengths[numbers][:, None]
    places = np.arange(width)[None]
    inside = places < lengths
    tokens = sentences.tokens[np.where(inside, starts + places, 0)].astype(np.int64)
    return np.where(inside, tokens, np.where(places == lengths, END, PAD))
