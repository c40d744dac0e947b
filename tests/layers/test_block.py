"""Blocks against their formulas."""

import pytest
import torch
from torch.nn.functional import layer_norm
from torch.testing import assert_close

from fastweights.layers import Block, FastWeightAttention, FeedForward, SoftmaxAttention


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


def test_the_initial_state_of_a_block_is_that_of_its_attention() -> None:
    block = Block(8, FastWeightAttention(8, 2), FeedForward(8, 16))
    state = block.initial_state(3, torch.float64)
    assert state.weights.shape == (3, 2, 4, 8)
    assert state.weights.dtype == torch.float64
    assert state.steps.tolist() == [0, 0, 0]


@pytest.mark.parametrize("pre_norm", [True, False])
def test_a_block_hands_boundaries_on(pre_norm: bool) -> None:
    block = Block(8, FastWeightAttention(8, 2), FeedForward(8, 16), pre_norm=pre_norm).eval()
    x, begins = torch.randn(1, 9, 8), torch.arange(9)[None] == 4
    packed, after = block(x, boundaries=begins)
    alone, state = block(x[:, 4:])
    assert_close(packed[:, 4:], alone, rtol=1e-5, atol=2e-6)
    assert_close(after.weights, state.weights, rtol=1e-5, atol=2e-6)
    assert after.steps.tolist() == [5]
