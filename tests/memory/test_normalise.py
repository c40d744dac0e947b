"""Normalisations against their definitions, and what becomes of features that are all zero."""

import pytest
import torch
from torch.testing import assert_close

from fastweights import DeltaRule, FastWeightAttention, Identity
from fastweights.memory import (
    NORMALISATIONS,
    CentredL2,
    L2Normalisation,
    NoNormalisation,
    Normalisation,
    SumNormalisation,
)

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
    if isinstance(normalisation, SumNormalisation | L2Normalisation):
        assert torch.equal(normalisation(one_hot), torch.tensor([[0.0, 1.0, 0.0]], dtype=torch.float64))


@pytest.mark.parametrize("normalisation", [each for each in EVERY if each.forgets_scale], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_scale_is_forgotten_over_the_whole_range_of_numbers(normalisation: Normalisation, dtype: torch.dtype) -> None:
    x = torch.rand(5, 6, dtype=torch.float64).to(dtype) + 0.25
    largest, absolute = torch.finfo(dtype).max / 4, 8 if isinstance(normalisation, CentredL2) else 0
    order = 1 if isinstance(normalisation, SumNormalisation) else 2
    for scale in (largest, 1.0, 1e-3):
        scaled = (x * scale).to(dtype)
        small = scaled.double() / scaled.double().max()
        if isinstance(normalisation, CentredL2):
            small = small - small.mean(-1, keepdim=True)
        expected = small / torch.linalg.vector_norm(small, ord=order, dim=-1, keepdim=True)
        actual = normalisation(scaled)
        assert actual.dtype == dtype
        # Centring makes differences, which are as precise as what they are differences of.
        assert_close(actual.double(), expected, rtol=4 * torch.finfo(dtype).eps, atol=absolute * torch.finfo(dtype).eps)


@pytest.mark.parametrize("normalisation", [SumNormalisation(), L2Normalisation()], ids=str)
def test_features_count_as_zero_below_the_documented_size(normalisation: Normalisation) -> None:
    x = torch.tensor([[1e-28], [1e-30]])
    assert normalisation(x).tolist() == [[1.0], [0.0]]


def test_one_row_does_not_change_another() -> None:
    x = torch.rand(3, 4)
    x[1] = torch.nan
    for normalisation in EVERY:
        assert torch.equal(normalisation(x)[[0, 2]], normalisation(x[[0, 2]]))


def test_centred_features_have_length_one_and_no_mean() -> None:
    assert_close(CentredL2()(torch.tensor([[4.0, 2.0, 0.0]])), torch.tensor([[0.5**0.5, 0.0, -(0.5**0.5)]]))
    x = torch.randn(50, 9, dtype=torch.float64).exp()
    y = CentredL2()(x)
    assert_close(y.sum(-1), torch.zeros(50, dtype=torch.float64), rtol=0, atol=1e-14)
    assert_close(y.square().sum(-1), torch.ones(50, dtype=torch.float64), rtol=1e-14, atol=0)


def test_centring_takes_out_what_all_features_share() -> None:
    x = torch.randn(50, 9, dtype=torch.float64)
    assert_close(CentredL2()(x + 100), CentredL2()(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("count", [2, 3, 7, 384])
def test_equal_features_have_nothing_but_what_is_taken_out(count: int, dtype: torch.dtype) -> None:
    for value in (0.1, 1 / 3, 1e-5, 7e8):
        x = torch.full((1, count), value, dtype=dtype, requires_grad=True)
        y = CentredL2()(x)
        y.sum().backward()
        assert not y.any()
        assert x.grad.isfinite().all()


def test_nearly_equal_features_are_centred_to_rounding() -> None:
    """One feature of many is larger by the last digit: the mean itself cannot be that precise."""
    x = torch.ones(1, 100)
    x[0, 3] += torch.finfo(torch.float32).eps
    expected = CentredL2()(x.double())
    assert_close(CentredL2()(x).double(), expected, rtol=1e-6, atol=1e-6)


def test_a_layer_refuses_what_centring_cannot_give() -> None:
    with pytest.raises(ValueError, match=r"CentredL2\(\) can be negative"):
        FastWeightAttention(8, 2, normalisation=CentredL2(), attention_normalisation=True)
    with pytest.raises(ValueError, match="leaves nothing of 1 feature"):
        FastWeightAttention(8, 2, key_dim=1, feature_map=Identity(), normalisation=CentredL2())


def test_a_full_write_lands_and_leaves_the_others() -> None:
    """Two positive keys share a direction: L2 normalisation overwrites part of the first, centring less of it."""
    keys = torch.tensor([[3.0, 1.0, 1.0, 1.0], [1.0, 3.0, 1.0, 1.0]], dtype=torch.float64)
    first, second = torch.tensor([1.0]).double(), torch.tensor([-1.0]).double()
    lost = {}
    for normalisation in (L2Normalisation(), CentredL2()):
        k = normalisation(keys)
        weights = torch.zeros(1, 1, 1, 4, dtype=torch.float64)
        for key, value in zip(k, (first, second), strict=True):
            beta = {"beta": torch.ones(1, 1, dtype=torch.float64)}
            weights = DeltaRule().step(weights, key[None, None], value[None, None], beta)
        reads = weights[0, 0, 0] @ k.T
        assert_close(reads[1], second[0], rtol=1e-14, atol=0)
        lost[type(normalisation)] = abs(float(reads[0] - first[0]))
    # cos = 2/3 before centring, -1/3 after it: W k₁ = v₁ + (v₂ - cos v₁) cos.
    assert_close(lost[L2Normalisation], abs((-1 - 2 / 3) * 2 / 3), rtol=1e-14, atol=0)
    assert_close(lost[CentredL2], abs((-1 + 1 / 3) * -1 / 3), rtol=1e-14, atol=0)
