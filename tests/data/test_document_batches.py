"""Sentences in the order of their documents: every row is one stretch of the text, pair after pair."""

from pathlib import Path

import pytest
import torch

from fastweights.data.document_batches import DocumentBatches
from fastweights.data.translation import PairedSentences, open_translation
from fastweights.data.translation_files import Languages
from fastweights.data.translation_tokeniser import END, START, JointBytePairs
from tiny_translation import write_pairs


@pytest.fixture
def train(tmp_path: Path) -> PairedSentences:
    return open_translation(write_pairs(tmp_path), Languages("en", "de"), JointBytePairs(280), tmp_path / "cache").train


def test_rows_go_on_from_batch_to_batch(train: PairedSentences) -> None:
    batches = DocumentBatches(train, 4, 100)
    assert (len(train), len(batches), batches.left_out) == (60, 15, 0)
    found = torch.stack([batch.pairs for batch in batches], dim=1)
    assert found.tolist() == [list(range(first, first + 15)) for first in (0, 15, 30, 45)]
    batch = batches.at(15 + 7)
    assert batch.pairs.tolist() == [7, 22, 37, 52], "an epoch follows the one before"
    row = train.target[22].tolist()
    assert batch.inputs[1, : len(row) + 1].tolist() == [START, *row]
    assert batch.labels[1, : len(row) + 1].tolist() == [*row, END]


def test_what_is_too_long_or_too_few_is_left_out(train: PairedSentences) -> None:
    lengths = 1 + torch.tensor([max(len(train.source[n]), len(train.target[n])) for n in range(len(train))])
    longest = int(lengths.median())
    kept = (lengths <= longest).nonzero()[:, 0]
    batches = DocumentBatches(train, 7, longest)
    assert len(kept) % 7, "nothing would be left over"
    assert len(batches) == len(kept) // 7
    assert batches.left_out == 60 - 7 * len(batches)
    first = torch.stack([batch.pairs for batch in batches], dim=1)
    assert first.flatten().tolist() == kept[: 7 * len(batches)].tolist()


def test_shares_are_columns_of_the_whole(train: PairedSentences) -> None:
    batches = DocumentBatches(train, 6, 100)
    whole, part = batches.at(3), batches.at(3, slice(2, 4), 3)
    assert torch.equal(part.source, whole.source[2:4])
    assert torch.equal(part.labels, whole.labels[2:4])
    assert part.weight == 3 / whole.tokens


def test_too_few_pairs_are_refused(train: PairedSentences) -> None:
    with pytest.raises(ValueError, match="batch_size: 60 of 60 pairs have at most 100 tokens a side, too few for 61"):
        DocumentBatches(train, 61, 100)
