"""Batches of pairs: what stands in them, the budget, the order, and the shares of processes."""

from itertools import pairwise

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fastweights.data.translation import PairedSentences, Sentences
from fastweights.data.translation_batches import IGNORED, PairBatches, TranslationBatch
from fastweights.data.translation_tokeniser import END, PAD, START

LONGEST = 12


def sentences(*rows: list[int]) -> Sentences:
    flat = [number for row in rows for number in row]
    return Sentences(np.array(flat, dtype="<u2"), np.cumsum([0, *map(len, rows)]))


def random_pairs(count: int, seed: int = 0) -> PairedSentences:
    """Sentence i starts with 3 + i on both sides."""
    draw = np.random.default_rng(seed)
    sides = [[[3 + number, *draw.integers(3, 99, draw.integers(0, 11))] for number in range(count)] for _ in range(2)]
    return PairedSentences(*(sentences(*side) for side in sides))


def numbers(batches: list[TranslationBatch]) -> list[list[int]]:
    return [batch.pairs.tolist() for batch in batches]


def test_a_batch_holds_sources_inputs_and_labels() -> None:
    pairs = PairedSentences(sentences([5, 6, 7], [8]), sentences([11], [12, 13]))
    batch = PairBatches(pairs, token_budget=99, longest=LONGEST, shuffle=False).at(0)
    assert batch.pairs.tolist() == [0, 1]
    assert batch.source.tolist() == [[5, 6, 7, END], [8, END, PAD, PAD]]
    assert batch.source_mask.tolist() == [[True] * 4, [True, True, False, False]]
    assert batch.inputs.tolist() == [[START, 11, PAD], [START, 12, 13]]
    assert batch.labels.tolist() == [[11, END, IGNORED], [12, 13, END]]
    assert batch.tokens == batch.tokens_of_step == 5
    assert batch.weight == 1 / 5


@given(st.integers(1, 60), st.integers(12, 60), st.integers(0, 3), st.integers(0, 2))
def test_an_epoch_has_every_pair_once_within_the_budget(count: int, budget: int, seed: int, epoch: int) -> None:
    stream = PairBatches(random_pairs(count), budget, longest=LONGEST, seed=seed)
    batches = [stream.at(epoch * stream.batches + step) for step in range(stream.batches)]
    assert sorted(number for rows in numbers(batches) for number in rows) == list(range(count))
    for batch in batches:
        assert len(batch.source) * max(batch.source.shape[1], batch.labels.shape[1]) <= budget
        # The content is that of the pairs, and no column is padding alone.
        assert (batch.source[:, 0] == batch.pairs + 3).all()
        assert (batch.inputs[:, 0] == START).all()
        assert batch.source_mask.any(dim=0).all()
        assert (batch.labels != IGNORED).any(dim=0).all()


def test_a_batch_takes_as_many_pairs_as_fit() -> None:
    stream = PairBatches(random_pairs(200), 48, longest=LONGEST, shuffle=False)
    batches = list(stream)
    for batch, following in pairwise(batches):
        width = max(batch.source.shape[1], batch.labels.shape[1])
        next_width = max(int(following.source_mask[0].sum()), int((following.labels[0] != IGNORED).sum()))
        assert (len(batch.source) + 1) * max(width, next_width) > 48


def test_the_order_is_a_function_of_seed_epoch_and_step() -> None:
    pairs = random_pairs(300)
    one, two = PairBatches(pairs, 48, LONGEST, seed=1), PairBatches(pairs, 48, LONGEST, seed=1)
    steps = range(3 * one.batches)
    expected = numbers([one.at(step) for step in steps])
    assert numbers([two.at(step) for step in reversed(steps)])[::-1] == expected
    epochs = [expected[epoch * one.batches : (epoch + 1) * one.batches] for epoch in range(3)]
    assert epochs[0] != epochs[1] != epochs[2]
    assert {tuple(rows) for rows in epochs[0]} != {tuple(rows) for rows in epochs[1]}, "pairs move between batches"
    assert numbers([PairBatches(pairs, 48, LONGEST, seed=2).at(step) for step in range(one.batches)]) != epochs[0]


def test_batches_are_shuffled_as_wholes_and_sorted_otherwise() -> None:
    pairs = random_pairs(300)
    lengths = [batch.labels.shape[1] for batch in PairBatches(pairs, 48, LONGEST, shuffle=False)]
    assert lengths == sorted(lengths)
    shuffled = [batch.labels.shape[1] for batch in PairBatches(pairs, 48, LONGEST)]
    assert shuffled != lengths
    assert sorted(shuffled) == lengths


@pytest.mark.parametrize("parts", [1, 2, 3, 7])
def test_the_shares_of_a_step_are_its_rows(parts: int) -> None:
    stream = PairBatches(random_pairs(100), 48, LONGEST)
    for step in range(stream.batches):
        whole, shares = stream.at(step), [stream.at(step, part, parts) for part in range(parts)]
        assert sum(share.tokens for share in shares) == whole.tokens == shares[0].tokens_of_step
        for part, share in enumerate(shares):
            if not share.tokens:
                assert part >= len(whole.source)
                assert len(share.source) == 1
                continue
            for name in ("source", "source_mask", "inputs", "labels", "pairs"):
                assert torch.equal(getattr(share, name), getattr(whole, name)[part::parts])


@pytest.mark.parametrize("parts", [1, 2, 5])
def test_the_mean_over_parts_weighs_every_target_token_the_same(parts: int) -> None:
    stream = PairBatches(random_pairs(100), 30, LONGEST)
    for step in range(10):
        whole = stream.at(step)
        value = torch.arange(200.0).sqrt()
        expected = value[whole.labels[whole.labels != IGNORED]].mean()
        shares = [stream.at(step, part, parts) for part in range(parts)]
        losses = [share.weight * value[share.labels[share.labels != IGNORED]].sum() for share in shares]
        torch.testing.assert_close(torch.stack(losses).mean(), expected)


def test_pairs_that_are_too_long_are_left_out_and_counted() -> None:
    long = [9] * 10_000
    pairs = PairedSentences(sentences([5], long, [6]), sentences([7], [8], long))
    stream = PairBatches(pairs, 1000)
    assert stream.left_out == 2
    assert numbers(list(stream)) == [[0]]
    with pytest.raises(ValueError, match="none of the 1 pairs has at most 256 tokens"):
        PairBatches(PairedSentences(sentences(long), sentences([8])), 1000)


def test_what_cannot_be() -> None:
    pairs = random_pairs(3)
    with pytest.raises(ValueError, match="token_budget: expected at least the 256 tokens"):
        PairBatches(pairs, 255)
    with pytest.raises(ValueError, match="seed: expected 0 or more"):
        PairBatches(pairs, 256, seed=-1)
    for arguments in ((0, 2, 2), (0, -1, 2), (-1,)):
        with pytest.raises(ValueError, match="part: expected"):
            PairBatches(pairs, 256).at(*arguments)
