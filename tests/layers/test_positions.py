"""Positions against their formula."""

import math

import pytest
import torch
from torch.testing import assert_close

from fastweights.layers import SinusoidalPositions


def test_positions_are_sines_and_cosines_of_each_step() -> None:
    added = SinusoidalPositions(6)(torch.zeros(1, 4, 6))
    for i in range(4):
        angles = [i * 10_000 ** (-j / 3) for j in range(3)]
        expected = [*map(math.sin, angles), *map(math.cos, angles)]
        assert_close(added[0, i], torch.tensor(expected), rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match="even number of components, got 5"):
        SinusoidalPositions(5)


def test_positions_continue_where_a_sequence_stopped_and_do_not_count_padding() -> None:
    positions, x = SinusoidalPositions(6), torch.zeros(2, 9, 6)
    whole = positions(x)
    assert torch.equal(positions(x[:, 4:], torch.tensor([4, 4])), whole[:, 4:])
    mask = torch.tensor([[False, False, True, True, False, True, True, True, True]] * 2)
    assert torch.equal(positions(x, None, mask)[mask].view(2, 6, 6), whole[:, :6])
    steps = torch.tensor([3, 0])
    assert torch.equal(positions(x[:, :2], steps)[0], whole[0, 3:5])


def test_positions_of_a_model_in_bfloat16_are_rounded_once() -> None:
    x = torch.zeros(1, 2000, 6)
    exact = SinusoidalPositions(6)(x)
    assert torch.equal(SinusoidalPositions(6).bfloat16()(x.bfloat16()), exact.bfloat16())


def test_positions_begin_anew_with_every_packed_sequence() -> None:
    positions, x = SinusoidalPositions(6), torch.zeros(1, 7, 6)
    whole, begins = positions(x), torch.tensor([[False, False, True, False, False, True, False]])
    mask = torch.tensor([[True, True, True, False, True, True, True]])
    packed = positions(x, torch.tensor([3]), mask, begins)
    # Places 3 and 4 of a sequence that goes on, then 0, (padding), 1 of a second one, then 0, 1 of a third.
    real = packed[:, mask[0]]
    assert torch.equal(real, whole[:, [3, 4, 0, 1, 0, 1]])
