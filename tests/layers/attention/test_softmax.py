"""Softmax attention: its state as a value, the non-causal form, and what it refuses."""

import math

import pytest
import torch
from torch.testing import assert_close

from fastweights.layers import SoftmaxAttention


def test_non_causal_attention_is_the_direct_formula() -> None:
    layer = SoftmaxAttention(8, 1, key_dim=4, value_dim=6, causal=False).double()
    x = torch.randn(1, 9, 8, dtype=torch.float64)
    q, k, v = (x[0] @ layer.projection.weight.T).split([4, 4, 6], dim=-1)
    expected = torch.softmax(q @ k.T / math.sqrt(4), dim=-1) @ v @ layer.output.weight.T
    assert_close(layer(x)[0][0], expected, rtol=1e-11, atol=1e-12)


def test_state_rows_can_be_selected_reordered_copied_and_cut_off() -> None:
    layer, x = SoftmaxAttention(8, 2).eval(), torch.randn(3, 5, 8)
    _, state = layer(x)
    again, beams = torch.randn(3, 2, 8), torch.tensor([2, 0, 0])
    expected = layer(again, layer(x[beams])[1])[0]
    assert_close(layer(again, state.reorder(beams))[0], expected, rtol=1e-6, atol=1e-7)
    assert torch.equal(state.select(torch.tensor([True, False, True])).keys, state.keys[[0, 2]])
    assert state.keys.requires_grad
    assert not state.detach().keys.requires_grad
    assert state.clone().values.data_ptr() != state.values.data_ptr()


def test_a_query_with_nothing_to_attend_to_reads_zero() -> None:
    layer = SoftmaxAttention(8, 2).eval()
    y, state = layer(torch.randn(1, 4, 8), None, torch.tensor([[False, False, True, True]]))
    assert y[0, :2].abs().sum() == 0
    assert y[0, 2:].abs().sum() > 0
    assert state.steps.tolist() == [2]


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="divisor of model_dim 8, got 3"):
        SoftmaxAttention(8, 3)
    with pytest.raises(ValueError, match=r"x: expected shape \(b, t, 8\), got \(2, 3, 7\)"):
        SoftmaxAttention(8, 2)(torch.randn(2, 3, 7))


@pytest.mark.usefixtures("without_shape_checks")
def test_a_mask_of_another_kind_is_refused() -> None:
    with pytest.raises(ValueError, match=r"mask: expected a bool tensor of shape \(2, 3\).*got torch.float32"):
        SoftmaxAttention(8, 2)(torch.randn(2, 3, 8), None, torch.ones(2, 3))
