"""The cache by itself: rows reordered, repeated, selected and forgotten; each layer counts its own steps."""

import pytest
import torch

from fastweights.hf import FastWeightCache
from fastweights.memory import FastWeightState


def example() -> FastWeightCache:
    """Two layers with three rows each; row r of layer l holds 10 l + r everywhere."""
    cache = FastWeightCache(2)
    rows = torch.arange(3.0).view(3, 1, 1, 1).expand(3, 2, 4, 5)
    cache.store([FastWeightState(10 * layer + rows, None, torch.arange(3)) for layer in range(2)], steps=7)
    return cache


def rows_of(cache: FastWeightCache) -> list[list[float]]:
    assert cache.states is not None
    for state in cache.states:
        assert torch.equal(state.steps.float(), state.weights[:, 0, 0, 0] % 10)
        assert (state.weights == state.weights[:, :1, :1, :1]).all()
    return [state.weights[:, 0, 0, 0].tolist() for state in cache.states]


def test_beams_take_their_rows_with_them() -> None:
    cache = example()
    cache.reorder_cache(torch.tensor([2, 2, 0]))
    assert rows_of(cache) == [[2, 2, 0], [12, 12, 10]]


def test_rows_are_repeated_next_to_each_other() -> None:
    cache = example()
    cache.batch_repeat_interleave(2)
    assert rows_of(cache) == [[0, 0, 1, 1, 2, 2], [10, 10, 11, 11, 12, 12]]


@pytest.mark.parametrize("rows", [torch.tensor([0, 2]), torch.tensor([True, False, True])])
def test_rows_are_selected_by_number_or_by_mask(rows: torch.Tensor) -> None:
    cache = example()
    cache.batch_select_indices(rows)
    assert rows_of(cache) == [[0, 2], [10, 12]]


def test_every_layer_counts_its_own_steps() -> None:
    cache = example()
    assert [cache.get_seq_length(layer) for layer in range(3)] == [7, 7, 0]
    cache.store(cache.states or [], steps=2)
    assert cache.get_seq_length() == 9
    assert cache.get_mask_sizes(4, 0) == (13, 0)


def test_a_reset_forgets_everything_and_nothing_can_be_cut_back() -> None:
    cache = example()
    with pytest.raises(ValueError, match="cannot go back to an earlier step; keep a clone"):
        cache.crop(3)
    assert rows_of(cache) == [[0, 1, 2], [10, 11, 12]]
    cache.reset()
    assert cache.states is None
    assert cache.get_seq_length() == 0
    # Nothing to move in an empty one.
    cache.reorder_cache(torch.tensor([1, 0]))
    cache.batch_repeat_interleave(2)
