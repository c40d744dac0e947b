"""Normalisations against their definitions, and what becomes of features that are all zero."""

import pytest
import torch
from torch.testing import assert_close

from fastweights.memory import NORMALISATIONS, L2Normalisation, NoNormalisation, Normalisation, SumNormalisation

EVERY = [cls() for cls in NORMALISATIONS.values()]


def test_match_their_definitions() -> None:
    x = torch.randn(7, 5, dtype=torch.float64).exp()
    assert NoNormalisation()(x) is x
    assert_close(SumNormalisation()(x), x / x.sum(-1, keepdim=True), rtol=1e-14, atol=0)
    assert_close(L2Normalisation()(x), x / x.square().sum(-1, keepdim=True).sqrt(), rtol=1e-14, atol=0)


def test_sum_normalisation_of_either_sign_divides_by_the_magnitudes() -> None:
    x = torch.tensor([[1.0, -1.0, 2.0, 0.0]])
    assert_close(SumNormalisation()(x), torch.tensor([[0.25, -0.25, 0.5, 0.0]]))


@pytest.mark.parametrize("normalisation", EVERY, ids=str)
def test_zero_stays_zero_with_finite_gradients(normalisation: Normalisation) -> None:
    x = torch.zeros(2, 4, requires_grad=True)
    y = normalisation(x)
    y.sum().backward()
    assert torch.equal(y, torch.zeros(2, 4))
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("normalisation", EVERY, ids=str)
def test_gradients_are_right_despite_the_detached_scale(normalisation: Normalisation) -> None:
    x = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(normalisation, x)
    one_hot = torch.tensor([[0.0, 2.0, 0.0]], dtype=torch.float64)
    if normalisation.forgets_scale:
        assert torch.equal(normalisation(one_hot), torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64))


@pytest.mark.parametrize("normalisation", [each for each in EVERY if each.forgets_scale], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_scale_is_forgotten_over_the_whole_range_of_numbers(normalisation: Normalisation, dtype: torch.dtype) -> None:
    x = torch.rand(5, 6, dtype=torch.float64).to(dtype) + 0.25
    largest = torch.finfo(dtype).max / 4
    order = {SumNormalisation: 1, L2Normalisation: 2}[type(normalisation)]
    for scale in (largest, 1.0, 1e-3):
        scaled = (x * scale).to(dtype)
        small = scaled.double() / scaled.double().max()
        expected = small / torch.linalg.vector_norm(small, ord=order, dim=-1, keepdim=True)
        actual = normalisation(scaled)
        assert actual.dtype == dtype
        assert_close(actual.double(), expected, rtol=4 * torch.finfo(dtype).eps, atol=0)


@pytest.mark.parametrize("normalisation", [SumNormalisation(), L2Normalisation()], ids=str)
def test_features_count_as_zero_below_the_documented_size(normalisation: Normalisation) -> None:
    x = torch.tensor([[1e-28], [1e-30]])
    assert normalisation(x).tolist() == [[1.0], [0.0]]


def test_one_row_does_not_change_another() -> None:
    x = torch.rand(3, 4)
    x[1] = torch.nan
    for normalisation in EVERY:
        assert torch.equal(normalisation(x)[[0, 2]], normalisation(x[[0, 2]]))
