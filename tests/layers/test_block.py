"""Blocks, feed-forward layers and positions against their formulas."""

import math

import pytest
import torch
from torch.nn.functional import layer_norm
from torch.testing import assert_close

from fastweights.layers import Block, FastWeightAttention, FeedForward, SinusoidalPositions, SoftmaxAttention
from (deleted) import MIN_ROWS, BatchInvariantLinear


def normalised(x: torch.Tensor) -> torch.Tensor:
    return layer_norm(x, (8,))


@pytest.mark.parametrize("attention", [FastWeightAttention, SoftmaxAttention])
def test_post_norm_and_pre_norm_are_their_formulas(attention: type[torch.nn.Module]) -> None:
    x, read, feed = torch.randn(2, 5, 8), attention(8, 2).eval(), FeedForward(8, 16)
    y = normalised(x + read(x)[0])
    assert_close(Block(8, read, feed)(x)[0], normalised(y + feed(y)))
    y = x + read(normalised(x))[0]
    assert_close(Block(8, read, feed, pre_norm=True)(x)[0], y + feed(normalised(y)))


@pytest.mark.parametrize("pre_norm", [True, False])
def test_a_block_streams_and_hands_the_mask_on(pre_norm: bool) -> None:
    block = Block(8, FastWeightAttention(8, 2), FeedForward(8, 16), pre_norm=pre_norm, dropout=0.5).eval()
    x = torch.randn(2, 9, 8)
    whole, state = block(x)
    first, middle = block(x[:, :4])
    second, after = block(x[:, 4:], middle)
    assert_close(torch.cat([first, second], dim=1), whole, rtol=1e-5, atol=2e-6)
    assert_close(after.weights, state.weights, rtol=1e-5, atol=2e-6)
    _, masked = block(x, None, torch.arange(9).expand(2, 9) < 4)
    assert_close(masked.weights, middle.weights, rtol=1e-5, atol=2e-6)
    assert masked.steps.tolist() == [4, 4]


def test_feed_forward_is_its_formula() -> None:
    layer, x = FeedForward(4, 6), torch.randn(3, 4)
    first, second = layer.layers[0], layer.layers[3]
    hidden = (x @ first.weight.T + first.bias).clamp(min=0)
    assert_close(layer(x[None])[0], hidden @ second.weight.T + second.bias)


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


@pytest.mark.parametrize("rows", range(2, MIN_ROWS + 3))
def test_a_row_does_not_depend_on_how_many_stand_beside_it(rows: int) -> None:
    layer, x = BatchInvariantLinear(32, 104), torch.randn(1, 60, 32)
    assert torch.equal(layer(x[:, :rows]), layer(x)[:, :rows])
    assert_close(layer(x[:, :rows]), x[:, :rows] @ layer.weight.T + layer.bias)
    assert_close(layer(x[:, :1]), layer(x)[:, :1])
