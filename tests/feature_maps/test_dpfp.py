"""DPFP against Eqs. 33-37 spelled out, and Listing 1."""

import re

import pytest
import torch
from torch.testing import assert_close

from fastweights.feature_maps import DPFP


def listing_1(x: list[float], nu: int) -> list[float]:
    """Listing 1 in plain Python: `roll` by j moves entry i - j to place i."""
    r = [max(0.0, y) for y in [*x, *(-y for y in x)]]
    return [r[i] * r[i - shift] for shift in range(1, nu + 1) for i in range(len(r))]


def equation_37(x: list[float], nu: int) -> list[float]:
    """φ_{iν'} = r_i r_{i+ν'} for every ν' from 1 to ν, the index taken modulo 2 d_key."""
    r = [max(0.0, y) for y in [*x, *(-y for y in x)]]
    return [r[i] * r[(i + shift) % len(r)] for shift in range(1, nu + 1) for i in range(len(r))]


@pytest.mark.parametrize(("key_dim", "nu"), [(2, 1), (5, 1), (5, 2), (5, 3), (5, 4), (16, 7), (64, 3)])
def test_is_listing_1_in_its_order(key_dim: int, nu: int) -> None:
    x = torch.randn(key_dim, dtype=torch.float64)
    expected = torch.tensor(listing_1(x.tolist(), nu), dtype=torch.float64)
    assert torch.equal(DPFP(nu)(x), expected)


@pytest.mark.parametrize(("key_dim", "nu"), [(2, 1), (5, 3), (16, 7)])
def test_is_equation_37_up_to_a_rotation_inside_each_shift(key_dim: int, nu: int) -> None:
    # Eq. 37 pairs i with i + ν', the listing i with i - ν': the same products, ν' places further.
    x = torch.randn(key_dim, dtype=torch.float64)
    expected = torch.tensor(equation_37(x.tolist(), nu), dtype=torch.float64).view(nu, -1)
    blocks = DPFP(nu)(x).view(nu, -1)
    for shift in range(1, nu + 1):
        assert torch.equal(blocks[shift - 1].roll(-shift), expected[shift - 1])


def test_two_dimensions_are_equations_33_to_36() -> None:
    x = torch.randn(50, 2, dtype=torch.float64)
    plus, minus = x.clamp(min=0), (-x).clamp(min=0)
    partial = [plus[:, 0] * plus[:, 1], minus[:, 0] * plus[:, 1], plus[:, 0] * minus[:, 1], minus[:, 0] * minus[:, 1]]
    # r = [x₁⁺, x₂⁺, x₁⁻, x₂⁻] times itself one place further.
    order = [2, 0, 1, 3]
    assert torch.equal(DPFP(1)(x), torch.stack([partial[i] for i in order], dim=1))
    assert (DPFP(1)(x) > 0).sum(dim=1).tolist() == [1] * 50


def test_features_are_sparse_and_not_negative() -> None:
    features = DPFP(3)(torch.randn(100, 16))
    assert (features >= 0).all()
    # Of two rectified halves exactly one is active per coordinate, so a quarter of all products survive.
    assert 0.2 < (features > 0).double().mean().item() < 0.3


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("nu", [0, -1, 1.0, True, "2"])
def test_nu_must_be_a_positive_integer(nu: object) -> None:
    with pytest.raises(ValueError, match=re.escape(f"at least 1, got {nu!r}")):
        DPFP(nu)  # type: ignore[arg-type]


def test_nu_beyond_the_equation_is_an_error_that_says_the_range() -> None:
    with pytest.raises(ValueError, match=r"1 \.\.\. 2 \* key_dim - 1 = 7 for key_dim 4 .*got 8"):
        DPFP(8).feature_dim(4)
    with pytest.raises(ValueError, match="got 8"):
        DPFP(8)(torch.randn(4))


@pytest.mark.parametrize("nu", [4, 5, 7])
def test_nu_from_key_dim_on_warns_and_gains_nothing(nu: int) -> None:
    x = torch.randn(4)
    with pytest.warns(UserWarning, match="gains nothing over nu = 3"):
        features = DPFP(nu)(x).view(nu, 8)
    assert features[3].abs().sum() == 0, "shift d_key multiplies x⁺ by x⁻"
    for shift in range(5, nu + 1):
        assert_close(features[shift - 1].sort().values, features[8 - shift - 1].sort().values)


def test_last_useful_nu_does_not_warn() -> None:
    assert DPFP(3).feature_dim(4) == 24


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_products_of_finite_numbers_stay_finite(dtype: torch.dtype) -> None:
    x = torch.tensor([1.0, -1.0, 1.0, 0.0], dtype=dtype) * torch.finfo(dtype).max
    x.requires_grad_()
    features = DPFP(2)(x)
    features.sum().backward()
    assert features.isfinite().all()
    assert features.max() > 0
    assert x.grad.isfinite().all()
