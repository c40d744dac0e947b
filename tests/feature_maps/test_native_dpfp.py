"""DPFP by the C++ kernel, alone and with sum normalisation, against its definition in PyTorch."""

import pytest
import torch
from torch import Tensor

from fastweights import DPFP, FastWeightAttention, SumNormalisation
from fastweights.feature_maps import native_dpfp

if not native_dpfp.serves(torch.zeros(1)):
    pytest.skip("the native kernels are not available", allow_module_level=True)

SIZES = [(1, 1), (2, 1), (3, 2), (3, 5), (8, 1), (16, 2), (17, 3), (32, 3), (33, 5)]


def by_definition(x: Tensor, nu: int, normalise: bool) -> Tensor:
    mapped = native_dpfp.definition(x, nu, normalise=False)
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
    actual, expected = native_dpfp.features(ours, nu, normalise), by_definition(exact, nu, normalise)
    torch.testing.assert_close(actual, expected, rtol=1e-13, atol=1e-15)
    direction = torch.randn_like(expected)
    (found,) = torch.autograd.grad(actual, ours, direction)
    (wanted,) = torch.autograd.grad(expected, exact, direction)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("special", [float("nan"), float("inf"), -float("inf"), 3e38, -1e19, 1e10, 1e-20, 1e-45, 0.0])
@pytest.mark.parametrize("normalise", [False, True], ids=["alone", "normalised"])
def test_extremes_are_treated_as_in_the_definition(special: float, normalise: bool) -> None:
    x = torch.randn(1, 1, 3, 8)
    x[0, 0, 1] *= 1e-20 if abs(special) < 1 else 1
    x[0, 0, 1, 3] = special
    ours, plain = x.clone().requires_grad_(), x.clone().requires_grad_()
    actual, expected = native_dpfp.features(ours, 2, normalise), by_definition(plain, 2, normalise)
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-37, equal_nan=True)
    if special == special:
        direction = torch.randn_like(expected)
        (found,) = torch.autograd.grad(actual, ours, direction)
        (wanted,) = torch.autograd.grad(expected, plain, direction)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("normalise", [False, True], ids=["alone", "normalised"])
def test_first_and_second_derivatives(normalise: bool) -> None:
    x = torch.randn(1, 1, 4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y: native_dpfp.features(y, 2, normalise), x)
    assert torch.autograd.gradgradcheck(lambda y: native_dpfp.features(y, 2, normalise), x)


def test_opcheck_passes() -> None:
    x = torch.randn(1, 2, 3, 4)
    torch.library.opcheck(native_dpfp.dpfp_forward, (x, 2, True))
    torch.library.opcheck(native_dpfp.dpfp_forward, (x.clone().requires_grad_(), 2, True))
    torch.library.opcheck(native_dpfp.dpfp_backward, (torch.randn(1, 2, 3, 16), x, 2, False))


def test_the_layer_uses_one_pass_and_gets_the_same() -> None:
    layer = FastWeightAttention(24, 3, feature_map=DPFP(nu=2))
    x = torch.randn(2, 3, 5, 8)
    mapped, _ = layer.mapping(x)
    torch.testing.assert_close(mapped, SumNormalisation()(DPFP(nu=2)(x)), rtol=1e-6, atol=1e-7)
    assert "dpfp_forward" in type(layer.mapping(x.requires_grad_())[0].grad_fn).__name__
