"""A padded step changes nothing, and rows of a batch do not see each other."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from combinations import CHOICES, Combination
from conditioning import Nudge, ill_conditioned
from fastweights.layers import FastWeightAttention, FastWeightCrossAttention, SoftmaxAttention
from fastweights.memory import FastWeightState
from pairwise import pairs_first
from random_problems import relative_error

NOTHING = math.nan
STATE_BOUND = 1e-6


def pad(x: Tensor, real: list[bool], filling: float) -> tuple[Tensor, Tensor]:
    """The steps of `x` where `real` says so and `filling` elsewhere, with the mask."""
    mask = torch.tensor(real).expand(x.shape[0], -1)
    padded = torch.full((x.shape[0], len(real), x.shape[2]), filling, dtype=x.dtype)
    padded[:, torch.tensor(real)] = x
    return padded, mask


def assert_same_state(actual: FastWeightState, expected: FastWeightState) -> None:
    assert actual.tensors().keys() == expected.tensors().keys()
    for name, x in actual.tensors().items():
        assert relative_error(x, expected.tensors()[name]) <= STATE_BOUND, name


PATTERNS = {
    "left": lambda n: [False] * 5 + [True] * n,
    "right": lambda n: [True] * n + [False] * 5,
    "both": lambda n: [False] * 3 + [True] * n + [False] * 4,
    "inside": lambda n: [True] * (n // 2) + [False] * 6 + [True] * (n - n // 2),
    "everywhere": lambda n: [False, True] * n,
    "across a chunk": lambda n: [False] * 60 + [True] * n + [False] * 70,
}


@settings(max_examples=100)
@given(st.data())
def test_padding_anywhere_changes_nothing(data: st.DataObject) -> None:
    choice = data.draw(st.sampled_from(CHOICES))
    backend = data.draw(st.sampled_from(["auto", *choice.backends(torch.float64)]))
    real = PATTERNS[data.draw(st.sampled_from(list(PATTERNS)))](data.draw(st.sampled_from([6, 1, 2, 13])))
    filling = data.draw(st.sampled_from([NOTHING, math.inf, 0.0, 7.0]))
    batch, generator = data.draw(st.sampled_from([1, 2])), torch.Generator().manual_seed(data.draw(st.integers(0, 999)))
    layer = choice.layer(backend=backend).double()
    x, before = (torch.randn(batch, n, 8, generator=generator).double() for n in (sum(real), 3))
    padded, mask = pad(x, real, filling)
    with torch.no_grad():
        start = layer(before)[1] if data.draw(st.booleans()) else None
        expected, whole = layer(x, start)
        actual, after = layer(padded, start, mask)
        assert actual.isfinite().all()
        assert relative_error(actual[mask].view_as(expected), expected) <= 1e-12
        assert relative_error(after.weights, whole.weights) <= 1e-12
        assert after.steps.tolist() == whole.steps.tolist()
        again = torch.randn(batch, 4, 8, generator=generator).double()
        assert relative_error(layer(again, after)[0], layer(again, whole)[0]) <= 1e-12


@pytest.mark.parametrize("choice", pairs_first(CHOICES, lambda choice: choice.options), ids=str)
def test_right_padding_leaves_the_same_state(choice: Combination) -> None:
    for steps, more in [(1, 2), (7, 60)]:
        x, before = well_conditioned(choice, steps)
        padded, mask = pad(x, [True] * steps + [False] * more, NOTHING)
        for backend in ["auto", *choice.backends()]:
            layer = choice.layer(backend=backend)
            with torch.no_grad():
                start = layer(before)[1]
                assert_same_state(layer(padded, start, mask)[1], layer(x, start)[1])


def well_conditioned(choice: Combination, steps: int) -> tuple[Tensor, Tensor]:
    """Random inputs, drawn again until the bound can judge every part of the state (see conditioning.py).

    Products of matrices of different heights round differently, so that keys of the padded sequence may differ from the
    others in the last bit; where features that are nearly equal are centred, little else is left of them.
    """
    layer = choice.layer(backend="recurrent").double()
    for _ in range(20):
        x, before = torch.randn(2, steps, 8), torch.randn(2, 3, 8)

        def exact(nudge: Nudge, x: Tensor = x, before: Tensor = before) -> dict[str, Tensor]:
            with torch.no_grad():
                return layer(nudge(x), layer(nudge(before))[1])[1].tensors()

        if not ill_conditioned(dict.fromkeys(exact(Tensor.double), STATE_BOUND), exact):
            return x, before
    raise AssertionError(f"{choice}: none of twenty problems is well conditioned")


@pytest.mark.parametrize("backend", ["auto", *CHOICES[0].backends()])
def test_sequences_of_different_lengths_end_as_if_alone(backend: str) -> None:
    layer = FastWeightAttention(16, 2, backend=backend).eval()
    lengths = [2, 9, 33, 70]
    x = torch.randn(4, 70, 16)
    mask = torch.arange(70) < torch.tensor(lengths)[:, None]
    with torch.no_grad():
        start = layer(torch.randn(4, 5, 16))[1]
        _, together = layer(x.masked_fill(~mask[..., None], NOTHING), start, mask)
        for row, length in enumerate(lengths):
            index = torch.tensor([row])
            _, alone = layer(x[index, :length], start.select(index))
            assert_same_state(together.select(index), alone)


def test_a_sequence_of_padding_only_leaves_everything_as_it_was() -> None:
    layer, x = FastWeightAttention(8, 2, attention_normalisation=True).eval(), torch.full((2, 5, 8), NOTHING)
    start = layer(torch.randn(2, 4, 8))[1]
    y, after = layer(x, start, torch.zeros(2, 5, dtype=torch.bool))
    assert after == start
    assert torch.equal(y, torch.zeros(2, 5, 8))


def test_padded_content_reaches_no_gradient() -> None:
    for layer in (FastWeightAttention(8, 2), FastWeightAttention(8, 2, attention_normalisation=True)):
        x = torch.randn(2, 6, 8)
        (expected,) = torch.autograd.grad(layer(x)[0].square().sum(), layer.projection.weight)
        padded, mask = pad(x, [True, False, True, True, True, False, True, True, False], NOTHING)
        padded.requires_grad_()
        y = layer(padded, None, mask)[0]
        gradient, of_x = torch.autograd.grad(y[mask].square().sum(), (layer.projection.weight, padded))
        torch.testing.assert_close(gradient, expected, rtol=1e-5, atol=1e-6)
        assert of_x.isfinite().all()
        assert of_x[~mask].abs().sum() == 0


@pytest.mark.parametrize("name", list(PATTERNS))
@pytest.mark.parametrize("causal", [True, False])
def test_softmax_attention_does_not_see_padding(name: str, causal: bool) -> None:
    layer, x = SoftmaxAttention(8, 2, causal=causal).eval(), torch.randn(2, 6, 8)
    padded, mask = pad(x, PATTERNS[name](6), NOTHING)
    again = torch.randn(2, 4, 8)
    with torch.no_grad():
        expected, whole = layer(x)
        actual, after = layer(padded, None, mask)
        assert actual.isfinite().all()
        assert relative_error(actual[mask].view_as(expected), expected) <= 1e-6
        assert relative_error(layer(again, after)[0], layer(again, whole)[0]) <= 1e-6
        assert after.steps.tolist() == [6, 6]


def test_non_causal_and_cross_attention_do_not_see_padding() -> None:
    x = torch.randn(2, 6, 8)
    padded, mask = pad(x, [False, True, True, False, True, True, True, True, False], NOTHING)
    layer = FastWeightAttention(8, 2, causal=False).eval()
    assert relative_error(layer(padded, None, mask)[0][mask].view_as(x), layer(x)[0]) <= 1e-6
    cross = FastWeightCrossAttention(8, 2, attention_normalisation=True).eval()
    written, expected = cross.write(padded, mask=mask), cross.write(x)
    assert relative_error(written.weights, expected.weights) <= 1e-6
    assert relative_error(cross(padded, expected, mask)[0][mask].view_as(x), cross(x, expected)[0]) <= 1e-6


def rows_of(state: FastWeightState, rows: list[int]) -> FastWeightState:
    return state.select(torch.tensor(rows))


@settings(max_examples=100)
@given(st.data())
def test_rows_do_not_influence_each_other(data: st.DataObject) -> None:
    choice = data.draw(st.sampled_from(CHOICES))
    backend = data.draw(st.sampled_from(["auto", *choice.backends()]))
    poison = data.draw(st.sampled_from([math.nan, math.inf, -math.inf, 1e20]))
    steps, generator = (
        data.draw(st.sampled_from([5, 1, 66])),
        torch.Generator().manual_seed(data.draw(st.integers(0, 99))),
    )
    layer = choice.layer(backend=backend)
    x = torch.randn(3, steps, 8, generator=generator)
    with torch.no_grad():
        expected, clean = layer(x)
        x[1, data.draw(st.integers(0, steps - 1)), data.draw(st.integers(0, 7))] = poison
        try:
            actual, after = layer(x)
        except FloatingPointError:
            return
        alone, _ = layer(x[2:])
    assert torch.equal(actual[[0, 2]], expected[[0, 2]])
    assert rows_of(after, [0, 2]) == rows_of(clean, [0, 2])
    assert relative_error(actual[2:], alone) <= 1e-6, "the size of the batch does not matter"


def test_rows_do_not_influence_each_other_in_gradients() -> None:
    layer, x = FastWeightAttention(8, 2), torch.randn(3, 9, 8)
    x[1] = math.nan
    x.requires_grad_()
    (gradient,) = torch.autograd.grad(layer(x)[0][[0, 2]].square().sum(), x)
    (expected,) = torch.autograd.grad(layer(y := x.detach()[[0, 2]].requires_grad_())[0].square().sum(), y)
    torch.testing.assert_close(gradient[[0, 2]], expected, rtol=1e-6, atol=1e-7)


def test_softmax_rows_do_not_influence_each_other() -> None:
    layer, x = SoftmaxAttention(8, 2).eval(), torch.randn(3, 9, 8)
    expected = layer(x)[0]
    x[1, 4] = math.nan
    assert torch.equal(layer(x)[0][[0, 2]], expected[[0, 2]])
