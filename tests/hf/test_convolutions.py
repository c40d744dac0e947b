"""What stands in for transformers' short convolutions: the same numbers, and when it hands over to them."""

import itertools
from typing import Any

import pytest
import torch
from torch.nn.functional import conv1d, silu
from torch.testing import assert_close
from transformers.models.qwen3_next import modeling_qwen3_next as theirs

from fastweights.hf.convolutions import convolution, convolution_step


def original(*args: Any, **named: Any) -> tuple[Any, dict[str, Any]]:
    return "the original", named


@pytest.mark.parametrize("bias", [False, True])
def test_the_convolution_of_a_packed_row_is_that_of_its_sequences(bias: bool) -> None:
    x, weight = torch.randn(1, 6, 12, dtype=torch.float64), torch.randn(6, 4, dtype=torch.float64)
    added = torch.randn(6, dtype=torch.float64) if bias else None
    ends = [0, 5, 6, 12]
    packed = convolution(original)(x, weight, added, activation="silu", cu_seq_lens_q=torch.tensor(ends))
    for start, end in itertools.pairwise(ends):
        whole = conv1d(x[..., start:end], weight[:, None], added, padding=3, groups=6)[..., : end - start]
        assert_close(packed[..., start:end], silu(whole), rtol=1e-12, atol=1e-13)


def test_a_packed_row_that_continues_a_cache_is_refused() -> None:
    with pytest.raises(ValueError, match="packed rows of 3 steps cannot continue a cache"):
        convolution(original)(torch.randn(1, 6, 5), torch.randn(6, 4), seq_idx=torch.tensor([[0, 1, 1]]))


@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("steps", [1, 3, 90])
def test_a_sequence_is_convolved_as_there(steps: int, bias: bool, activation: str | None) -> None:
    x, weight = torch.randn(2, steps, 6).mT, torch.randn(6, 4)
    added = torch.randn(6) if bias else None
    expected = theirs.causal_conv1d_fn(x, weight, added, activation=activation)
    for given in (x, x.contiguous()):
        found = convolution(original)(given, weight, added, activation=activation)
        assert_close(found, expected, rtol=1e-6, atol=1e-6)
        assert found.mT.is_contiguous()


@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("bias", [False, True])
def test_a_step_moves_the_state_as_there(bias: bool, activation: str | None) -> None:
    state, weight, added = torch.randn(2, 6, 4), torch.randn(6, 4), torch.randn(6) if bias else None
    expected_state = state.clone()
    for _ in range(3):
        x = torch.randn(2, 6, 1)
        expected = theirs.causal_conv1d_update(x, expected_state, weight, added, activation)
        found = convolution_step(original)(x, state, weight, added, activation)
        assert_close(found, expected, rtol=1e-6, atol=1e-6)
        assert torch.equal(state, expected_state)


def test_what_the_convolution_does_not_know_is_the_originals() -> None:
    x, weight, state = torch.randn(1, 6, 12), torch.randn(6, 4), torch.randn(1, 6, 4)
    for given in ((x, weight, None, "gelu"), (x.bfloat16(), weight), (x.bfloat16(), weight.bfloat16())):
        assert convolution(original)(*given)[0] == "the original"
    assert convolution(original)(x.to("meta"), weight.to("meta"))[0] == "the original"
    step = convolution_step(original)
    for several in ((x, state, weight), (x[..., :1], state[..., 1:], weight), (x[..., :1], state.bfloat16(), weight)):
        assert step(*several)[0] == "the original"
    assert step(x[..., :1], state, weight, None, "gelu")[0] == "the original"
