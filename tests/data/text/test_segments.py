"""Columns and segments."""

from collections import Counter

import numpy as np
import pytest
import torch

from fastweights.data.text.segments import SegmentStream


def stream(count: int, **options: object) -> SegmentStream:
    return SegmentStream(np.arange(count, dtype=np.uint16), **options)  # type: ignore[arg-type]


def test_columns_are_contiguous_and_the_rest_is_left_out() -> None:
    segments = stream(23, batch_size=2, length=4)
    assert segments.segments == 3
    found = [segments.at(step) for step in range(4)]
    assert found[0].inputs.tolist() == [[0, 1, 2, 3], [11, 12, 13, 14]]
    assert found[0].targets.tolist() == [[1, 2, 3, 4], [12, 13, 14, 15]]
    assert found[1].inputs[0].tolist() == [4, 5, 6, 7]
    # The last segment of an epoch is shorter, and the next epoch starts again.
    assert found[2].inputs.tolist() == [[8, 9], [19, 20]]
    assert [segment.first for segment in found] == [True, False, False, True]
    assert [segment.epoch for segment in found] == [0, 0, 0, 1]
    assert torch.equal(found[3].inputs, found[0].inputs)


@pytest.mark.parametrize("shuffle", [False, True])
@pytest.mark.parametrize(("count", "batch", "length"), [(100, 3, 7), (64, 4, 16), (11, 5, 1), (50, 1, 49)])
def test_every_target_comes_once_in_every_epoch(count: int, batch: int, length: int, shuffle: bool) -> None:
    segments = stream(count, batch_size=batch, length=length, shuffle=shuffle)
    column = count // batch
    expected = Counter(c * column + i for c in range(batch) for i in range(1, column))
    for epoch in range(3):
        steps = range(epoch * segments.segments, (epoch + 1) * segments.segments)
        assert Counter(int(x) for step in steps for x in segments.at(step).targets.flatten()) == expected


def test_a_shuffled_order_is_a_function_of_seed_and_epoch() -> None:
    def order(seed: int, epoch: int) -> list[int]:
        segments = stream(400, batch_size=2, length=5, shuffle=True, seed=seed)
        return [int(segments.at(epoch * segments.segments + i).inputs[0, 0]) for i in range(segments.segments)]

    assert order(1, 0) == order(1, 0)
    assert len({tuple(order(seed, epoch)) for seed in (1, 2) for epoch in (0, 1)}) == 4


def test_some_columns_are_those_of_the_whole_batch() -> None:
    segments = stream(100, batch_size=4, length=6)
    assert torch.equal(segments.at(2, slice(2, 4)).targets, segments.at(2).targets[2:])


def test_a_stream_too_short_for_its_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="possible: up to 4"):
        stream(9, batch_size=5, length=2)
    with pytest.raises(ValueError, match="at least 1"):
        stream(9, batch_size=0, length=2)


def test_a_seed_that_cannot_shuffle_is_refused() -> None:
    with pytest.raises(ValueError, match="seed: expected 0 or more to shuffle with, got -1"):
        stream(9, batch_size=1, length=2, shuffle=True, seed=-1)
