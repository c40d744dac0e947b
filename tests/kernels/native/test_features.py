"""DPFP and ELU+1 by the C++ kernels, alone and with every normalisation, against their definitions in PyTorch."""

import pytest
import torch
from torch import Tensor

from fastweights import DPFP, EluPlusOne, FastWeightAttention, FeatureMap, SumNormalisation
from fastweights.feature_maps.dpfp import dpfp
from fastweights.feature_maps.elu import elu_plus_one
from fastweights.kernels.features import NormalisationKernel, fused_features
from fastweights.kernels.native import library
from fastweights.memory import NORMALISATIONS as BY_NAME

if (problem := library.unavailable()) is not None:
    pytest.skip(problem, allow_module_level=True)

ELU = EluPlusOne()
SIZES = [
    *((dim, ELU) for dim in (1, 7, 16, 32, 33)),
    *((dim, DPFP(nu)) for dim, nu in [(2, 1), (3, 2), (8, 1), (16, 2), (17, 3), (32, 3), (33, 5)]),
]
NORMALISATIONS = pytest.mark.parametrize("normalisation", ["none", "sum", "l2", "centred-l2"])


def fused(feature_map: FeatureMap, x: Tensor, normalisation: NormalisationKernel) -> Tensor:
    features = fused_features(feature_map.kernel(x.shape[-1]), normalisation, x)
    assert features is not None
    return features


def by_definition(feature_map: FeatureMap, x: Tensor, normalisation: NormalisationKernel) -> Tensor:
    features = dpfp(x, feature_map.nu) if isinstance(feature_map, DPFP) else elu_plus_one(x)
    return BY_NAME[normalisation]()(features)


@NORMALISATIONS
@pytest.mark.parametrize("shape", [(2, 3, 70), (5,), (), (2, 3, 0)], ids=str)
@pytest.mark.parametrize(("input_dim", "feature_map"), SIZES, ids=str)
def test_features_and_gradients_agree_with_the_definition(
    input_dim: int, feature_map: FeatureMap, shape: tuple[int, ...], normalisation: NormalisationKernel
) -> None:
    # b t h d seen as b h t d, as a layer hands it over
    x = torch.randn(*shape, input_dim, dtype=torch.float64)
    x = x.transpose(1, 2).contiguous().transpose(1, 2) if x.dim() == 4 else x
    ours, exact = x.clone().requires_grad_(), x.clone().requires_grad_()
    actual, expected = fused(feature_map, ours, normalisation), by_definition(feature_map, exact, normalisation)
    torch.testing.assert_close(actual, expected, rtol=1e-13, atol=1e-15)
    direction = torch.randn_like(expected)
    (found,) = torch.autograd.grad(actual, ours, direction)
    (wanted,) = torch.autograd.grad(expected, exact, direction)
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("special", [float("nan"), float("inf"), -float("inf"), 3e38, -1e19, 1e10, 1e-20, 1e-45, 0.0])
@NORMALISATIONS
@pytest.mark.parametrize("feature_map", [ELU, DPFP(nu=2)], ids=str)
def test_extremes_are_treated_as_in_the_definition(
    feature_map: FeatureMap, special: float, normalisation: NormalisationKernel
) -> None:
    x = torch.randn(1, 1, 3, 8)
    x[0, 0, 1] *= 1e-20 if abs(special) < 1 else 1
    x[0, 0, 1, 3] = special
    ours, plain = x.clone().requires_grad_(), x.clone().requires_grad_()
    actual, expected = fused(feature_map, ours, normalisation), by_definition(feature_map, plain, normalisation)
    # A difference from the mean is exact to the rounding of what is subtracted.
    least = torch.finfo(torch.float32).eps if normalisation == "centred-l2" else 1e-37
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=least, equal_nan=True)
    if special == special:
        direction = torch.randn_like(expected)
        (found,) = torch.autograd.grad(actual, ours, direction)
        (wanted,) = torch.autograd.grad(expected, plain, direction)
        torch.testing.assert_close(found, wanted, rtol=1e-4, atol=1e-5, equal_nan=True)


@NORMALISATIONS
@pytest.mark.parametrize("feature_map", [ELU, DPFP(nu=2)], ids=str)
def test_first_and_second_derivatives(feature_map: FeatureMap, normalisation: NormalisationKernel) -> None:
    x = torch.randn(1, 1, 4, 6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda y: fused(feature_map, y, normalisation), x)
    assert torch.autograd.gradgradcheck(lambda y: fused(feature_map, y, normalisation), x)


@pytest.mark.parametrize("feature_map", [ELU, DPFP(nu=2)], ids=str)
def test_opcheck_passes(feature_map: FeatureMap) -> None:
    x = torch.randn(1, 2, 3, 4)
    kernel = feature_map.kernel(4)
    assert kernel is not None
    compiled, parameters = kernel.compiled, list(kernel.parameters)
    torch.library.opcheck(compiled._forward, (x, parameters, 3))
    torch.library.opcheck(compiled._forward, (x.clone().requires_grad_(), parameters, 3))
    gradient = torch.randn(1, 2, 3, feature_map.feature_dim(4))
    torch.library.opcheck(compiled._backward, (gradient, x, parameters, 2))


def test_what_no_kernel_computes_is_left_to_the_caller() -> None:
    x = torch.randn(1, 2, 3, 4)
    kernel = DPFP().kernel(4)
    assert fused_features(kernel, None, x) is None
    assert fused_features(None, "sum", x) is None
    assert fused_features(kernel, "sum", x.bfloat16()) is None
    assert fused_features(kernel, "sum", x.to("meta")) is None


@pytest.mark.parametrize("feature_map", [DPFP(nu=2), EluPlusOne()], ids=str)
def test_the_layer_uses_one_pass_and_gets_the_same(feature_map: FeatureMap) -> None:
    layer = FastWeightAttention(24, 3, feature_map=feature_map)
    x = torch.randn(2, 3, 5, 8)
    mapped, _ = layer.mapping(x)
    torch.testing.assert_close(mapped, SumNormalisation()(feature_map(x)), rtol=1e-6, atol=1e-7)
    name = "dpfp_forward" if isinstance(feature_map, DPFP) else "elu_plus_one_forward"
    assert name in type(layer.mapping(x.requires_grad_())[0].grad_fn).__name__


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_exponentials_are_right_to_the_last_digits(dtype: torch.dtype) -> None:
    """From one down through the subnormal numbers to zero."""
    least = -110.0 if dtype == torch.float32 else -760.0
    x = torch.linspace(least, 0, 200_001, dtype=dtype)
    exact = x.double().exp() if dtype == torch.float32 else x.exp()
    found = fused(ELU, x, "none")
    smallest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
    error = (found.double() - exact).abs() / exact.clamp(min=smallest)
    normal = exact > torch.finfo(dtype).smallest_normal
    assert error[normal].max() <= 1.5 * torch.finfo(dtype).eps
    assert ((found.double() - exact).abs() <= 2 * smallest)[~normal].all()
    assert fused(ELU, torch.tensor([-torch.inf, 0.0, 3.5], dtype=dtype), "none").tolist() == [0, 1, 4.5]
