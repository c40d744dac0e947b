"""A sequence in pieces, its state saved and loaded between them, is the sequence in one piece."""

import tempfile
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from torch import Tensor

from combinations import CHOICES, INTERPRETED, Combination, examples
from fastweights.layers import FastWeightAttention, FastWeightCrossAttention, SoftmaxAttention
from fastweights.memory import FastWeightState
from pairwise import every_pair, pairs_first
from random_problems import relative_error

SPLITS = 6
"""Of each choice."""


def in_pieces(layer: FastWeightAttention, x: Tensor, cuts: list[int]) -> tuple[Tensor, FastWeightState]:
    """Fed piece by piece; between the pieces nothing but a file is left of the past."""
    outputs, state = [], None
    with tempfile.TemporaryDirectory() as folder:
        for start, end in pairwise([0, *sorted(cuts), x.shape[1]]):
            y, state = layer(x[:, start:end], state)
            state.save(Path(folder) / "state.safetensors")
            loaded = FastWeightState.load(Path(folder) / "state.safetensors")
            assert loaded == state, "save and load must keep every bit"
            outputs.append(y)
            state = loaded
    return torch.cat(outputs, dim=1), state


def amplifies(choice: Combination) -> bool:
    """Whether β|φ(k)|² can exceed 2: each write then amplifies what is stored, and rounding with it."""
    divided = choice.attention is not None and choice.attention.retrieval
    divided = divided and choice.rule.with_attention_normalisation().needs_normaliser
    return bool(choice.rule.gates) and not choice.normalisation.forgets_scale and not divided


def assert_same(choice: Combination, length: int, cuts: list[int], backend: str, seed: int) -> None:
    dtype, bound = (torch.float64, 1e-11) if amplifies(choice) else (torch.float32, 2e-6)
    layer = choice.layer(backend=backend).to(dtype)
    x = torch.randn(2, length, 8, generator=torch.Generator().manual_seed(seed)).to(dtype)
    with torch.no_grad():
        expected, whole = layer(x)
        actual, after = in_pieces(layer, x, cuts)
    assert relative_error(actual, expected) <= bound
    assert relative_error(after.weights, whole.weights) <= bound
    assert after.steps.tolist() == whole.steps.tolist() == [length] * 2
    if whole.normaliser is not None:
        assert relative_error(after.normaliser, whole.normaliser) <= bound
    if whole.log_scale is not None:
        torch.testing.assert_close(after.log_scale, whole.log_scale, rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("choice", pairs_first(CHOICES, lambda choice: choice.options), ids=str)
@settings(max_examples=examples(SPLITS), phases=[Phase.generate])
@given(st.data())
def test_any_split_gives_the_same_reads_and_weights(choice: Combination, data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 30) | st.sampled_from([64, 70]))
    cuts = data.draw(st.lists(st.integers(0, length), min_size=1, max_size=4))
    dtype = torch.float64 if amplifies(choice) else torch.float32
    served = ["auto", *choice.backends(dtype)]
    backend = data.draw(st.sampled_from(["triton"] if "triton" in served else served))
    assert_same(choice, length, cuts, backend, data.draw(st.integers(0, 2**20)))


@pytest.mark.skipif(INTERPRETED, reason="few splits are drawn where each is interpreted too")
def test_enough_splits_are_tried() -> None:
    few = every_pair(CHOICES, lambda choice: choice.options)
    assert SPLITS * len(few) >= 500
    assert SPLITS * sum(not amplifies(choice) for choice in few) >= 200


def test_token_by_token_is_the_whole_sequence() -> None:
    layer, x = FastWeightAttention(16, 2).double(), torch.randn(3, 70, 16, dtype=torch.float64)
    expected, whole = layer(x)
    state, outputs = None, []
    for t in range(70):
        y, state = layer(x[:, t : t + 1], state)
        outputs.append(y)
    torch.testing.assert_close(torch.cat(outputs, dim=1), expected, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(state.weights, whole.weights, rtol=1e-12, atol=1e-14)


def test_gradients_reach_earlier_pieces_through_the_state() -> None:
    layer, x = FastWeightAttention(8, 2).double(), torch.randn(2, 12, 8, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(layer(x)[0][:, 6:].square().sum(), x)
    _, state = layer(x[:, :6])
    (actual,) = torch.autograd.grad(layer(x[:, 6:], state)[0].square().sum(), x)
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-12)
    assert expected[:, :6].abs().sum() > 0
    (cut_off,) = torch.autograd.grad(layer(x[:, 6:], state.detach())[0].square().sum(), x)
    assert cut_off[:, :6].abs().sum() == 0


@settings(max_examples=60)
@given(st.integers(1, 40), st.lists(st.integers(0, 40), max_size=4), st.integers(0, 2**20))
def test_softmax_attention_streams_with_its_keys_and_values(length: int, cuts: list[int], seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    layer, x = SoftmaxAttention(8, 2).eval(), torch.randn(2, length, 8, generator=generator)
    with torch.no_grad():
        expected, whole = layer(x)
        outputs, state = [], None
        for start, end in pairwise([0, *sorted(min(cut, length) for cut in cuts), length]):
            y, state = layer(x[:, start:end], state)
            outputs.append(y)
    assert relative_error(torch.cat(outputs, dim=1), expected) <= 2e-6
    assert relative_error(state.keys, whole.keys) <= 2e-6
    assert relative_error(state.values, whole.values) <= 2e-6
    assert state.steps.tolist() == [length] * 2


@pytest.mark.parametrize("attention_normalisation", [False, True])
def test_a_source_can_be_written_in_pieces(attention_normalisation: bool) -> None:
    layer = FastWeightCrossAttention(8, 2, attention_normalisation=attention_normalisation).eval()
    source, x = torch.randn(2, 30, 8), torch.randn(2, 7, 8)
    with torch.no_grad():
        whole, pieces = layer.write(source), layer.write(source[:, 11:], layer.write(source[:, :11]))
        expected, unchanged = layer(x, whole)
        actual, _ = layer(x, pieces)
        assert unchanged == whole, "reading leaves the memory as it is"
        one_by_one = torch.cat([layer(x[:, t : t + 1], whole)[0] for t in range(7)], dim=1)
    assert relative_error(pieces.weights, whole.weights) <= 2e-6
    assert relative_error(actual, expected) <= 2e-6
    assert relative_error(one_by_one, expected) <= 2e-6
