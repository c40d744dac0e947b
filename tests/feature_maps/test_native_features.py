"""DPFP and ELU+1 by the C++ kernels, alone and with sum normalisation, against their definitions in PyTorch."""

import pytest
import torch
from torch import Tensor

from fastweights import DPFP, EluPlusOne, FastWeightAttention, FeatureMap, SumNormalisation
from fastweights.feature_maps import native_features

if not native_features.serves(torch.zeros(1)):
    pytest.skip("the native kernels are not available", allow_module_level=True)

ELU = 0
"""What the kernels take for ν to mean ELU+1."""
SIZES = [
    (1, ELU),
    (7, ELU),
    (16, ELU),
    (32, ELU),
    (33, ELU),
    (1, 1),
    (2, 1),
    (3, 2),
    (3, 5),
    (8, 1),
    (16, 2),
    (17, 3),
    (32, 3),
    (33, 5),
]


def by_definition(x: Tensor, nu: int, normalise: bool) -> Tensor:
    mapped = native_features.definition(x, nu, normalise=False)
    return SumNormalisation()(mapped) if normalise else mapped


@pytest.mark.parametrize("normalise", [False, True], ids=["alone", "normalised"])
@pytest.mark.parametrize("shape", [(2, 3, 70), (5,), (), (2, 3, 0)], ids=str)
@pytest.mark.parametrize(("input_dim", "nu"), SIZES)
def test_features_and_gradients_agree_with_the_definition(
    input_dim: int, nu: int, shape: tuple[int, ...], normalise: bool
) -> None:
    # b t h d seen as b h t d, as a layer hands it over
    x = torch.randn(*shape, input_dim, dtype=torch.float64)
    x = x.transpose(1, 2).contiguous().transpose(1, 2) if x.dim() == 4 else x
    ours, exact = x.clone().requires_grad_(), x.clone().requires_grad_()
    actual, expected = native_features.features(ours, nu, normalise), by_definition(exact, nu, normalise)
    torch.testing.assert_close(actual, expected, rtol=1e-13, atol=1e-15)
    direction = torch.randn_like(expected)
    (found,) = torch.autograd.grad(actual, ours, direction)
    (wanted,) = torch.autograd.grad(expected, exact, direction)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("special", [float("nan"), float("inf"), -float("inf"), 3e38, -1e19, 1e10, 1e-20, 1e-45, 0.0])
@pytest.mark.parametrize("normalise", [False, True], ids=["alone", "normalised"])
@pytest.mark.parametrize("nu", [ELU, 2])
def test_extremes_are_treated_as_in_the_definition(nu: int, special: float, normalise: bool) -> None:
    x = torch.randn(1, 1, 3, 8)
    x[0, 0, 1] *= 1e-20 if abs(special) < 1 else 1
    x[0, 0, 1, 3] = special
    ours, plain = x.clone().requires_grad_(), x.clone().requires_grad_()
    actual, expected = native_features.features(ours, nu, normalise), by_definition(plain, nu, normalise)
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-37, equal_nan=True)
    if special == special:
        direction = torch.randn_like(expected)
        (found,) = torch.autograd.grad(actual, ours, direction)
        (wanted,) = torch.autograd.grad(expected, plain, direction)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("normalise", [False, True], ids=["alone", "normalised"])
@pytest.mark.parametrize("nu", [ELU, 2])
def test_first_and_second_derivatives(nu: int, normalise: bool) -> None:
    x = torch.randn(1, 1, 4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y: native_features.features(y, nu, normalise), x)
    assert torch.autograd.gradgradcheck(lambda y: native_features.features(y, nu, normalise), x)


@pytest.mark.parametrize(("nu", "width"), [(ELU, 4), (2, 16)])
def test_opcheck_passes(nu: int, width: int) -> None:
    x = torch.randn(1, 2, 3, 4)
    torch.library.opcheck(native_features.features_forward, (x, nu, True))
    torch.library.opcheck(native_features.features_forward, (x.clone().requires_grad_(), nu, True))
    torch.library.opcheck(native_features.features_backward, (torch.randn(1, 2, 3, width), x, nu, False))


@pytest.mark.parametrize("feature_map", [DPFP(nu=2), EluPlusOne()], ids=str)
def test_the_layer_uses_one_pass_and_gets_the_same(feature_map: FeatureMap) -> None:
    layer = FastWeightAttention(24, 3, feature_map=feature_map)
    x = torch.randn(2, 3, 5, 8)
    mapped, _ = layer.mapping(x)
    torch.testing.assert_close(mapped, SumNormalisation()(feature_map(x)), rtol=1e-6, atol=1e-7)
    assert "features_forward" in type(layer.mapping(x.requires_grad_())[0].grad_fn).__name__


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exponentials_are_right_to_the_last_digits(dtype: torch.dtype) -> None:
    """From one down through the subnormal numbers to zero."""
    least = -110.0 if dtype == torch.float32 else -760.0
    x = torch.linspace(least, 0, 200_001, dtype=dtype)
    exact = x.double().exp() if dtype == torch.float32 else x.exp()
    found = native_features.features(x, ELU, normalise=False)
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    error = (found.double() - exact).abs() / exact.clamp(min=smallest)
    normal = exact > torch.finfo(dtype).smallest_normal
    assert error[normal].max() <= 1.5 * torch.finfo(dtype).eps
    assert ((found.double() - exact).abs() <= 2 * smallest)[~normal].all()
    assert native_features.features(torch.tensor([-torch.inf, 0.0, 3.5], dtype=dtype), ELU, False).tolist() == [
        0,
        1,
        4.5,
    ]
