"""Fused feature maps in the interpreter against their definitions in float64."""

import pytest
import torch
from drawn_scans import TOLERANCES, relative_to_largest
from torch import Tensor

from fastweights.feature_maps.dpfp import _COMPILED as DPFP_MAP
from fastweights.feature_maps.elu import _COMPILED as ELU_MAP
from fastweights.kernels import features as lookup
from fastweights.kernels.native.features import CompiledMap
from fastweights.kernels.triton import features as kernels
from fastweights.memory import NoNormalisation, SumNormalisation

pytestmark = pytest.mark.usefixtures("one_thread")
CASES = [(ELU_MAP, (), dim) for dim in (1, 3, 16, 33)] + [
    (DPFP_MAP, (nu,), dim) for nu, dim in ((1, 1), (1, 4), (2, 3), (3, 5), (1, 17), (3, 16))
]


def named(value: object) -> str:
    return value.name if isinstance(value, CompiledMap) else str(value)


def define(compiled: CompiledMap, x: Tensor, parameters: tuple[int, ...], divides: bool) -> Tensor:
    return (SumNormalisation() if divides else NoNormalisation())(compiled.definition(x, *parameters))


@pytest.mark.parametrize("divides", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(("compiled", "parameters", "dim"), CASES, ids=named)
def test_features_and_gradients_are_those_of_the_definition(
    compiled: CompiledMap, parameters: tuple[int, ...], dim: int, dtype: torch.dtype, divides: bool
) -> None:
    x = torch.randn(2, 3, 11, dim)[:, :, ::2].to(dtype).requires_grad_()
    exact = x.detach().double().requires_grad_()
    actual, expected = (
        kernels.fused(compiled, x, parameters, divides),
        define(compiled, exact, parameters, divides),
    )
    assert actual.shape == expected.shape
    assert actual.dtype == dtype
    assert relative_to_largest(actual, expected) <= TOLERANCES[dtype][0]
    direction = torch.randn(expected.shape).to(dtype)
    (found,) = torch.autograd.grad(actual, x, direction)
    (wanted,) = torch.autograd.grad(expected, exact, direction.double())
    if wanted.abs().max() > 1e-12:
        assert relative_to_largest(found, wanted) <= TOLERANCES[dtype][1]
    else:
        assert found.abs().max() < 1e-6, "one feature divided by itself"


@pytest.mark.parametrize(("compiled", "parameters"), [(ELU_MAP, ()), (DPFP_MAP, (2,))], ids=named)
@pytest.mark.parametrize("divides", [False, True])
def test_extreme_vectors(compiled: CompiledMap, parameters: tuple[int, ...], divides: bool) -> None:
    rows = [[0.0] * 5, [1e20, 1.0, -1e20, 0.5, 1e-30], [-200.0] * 5, [1e-40] * 5, [3e38] * 5, [1.0, 0, 0, 0, 0]]
    x = torch.tensor(rows, requires_grad=True)
    actual, expected = kernels.fused(compiled, x, parameters, divides), define(compiled, x, parameters, divides)
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-30)
    (gradient,) = torch.autograd.grad(actual.sum(), x)
    assert gradient.isfinite().all()


@pytest.mark.parametrize(("compiled", "parameters"), [(ELU_MAP, ()), (DPFP_MAP, (2,))], ids=named)
def test_a_vector_that_is_not_finite_stays_alone(compiled: CompiledMap, parameters: tuple[int, ...]) -> None:
    x = torch.randn(3, 4)
    x[1, 2] = torch.nan
    y = kernels.fused(compiled, x, parameters, True)
    assert y[[0, 2]].isfinite().all()
    assert y[1].isnan().any()


def test_second_derivatives_are_those_of_the_definition() -> None:
    x = torch.randn(2, 4, dtype=torch.float32).requires_grad_()
    second = []
    for y in (kernels.fused(DPFP_MAP, x, (1,), True), define(DPFP_MAP, x, (1,), True)):
        (first,) = torch.autograd.grad(y.square().sum(), x, create_graph=True)
        second += torch.autograd.grad(first.square().sum(), x)
    torch.testing.assert_close(second[0], second[1], rtol=1e-4, atol=1e-6)


def test_nothing_to_map() -> None:
    assert kernels.fused(ELU_MAP, torch.empty(0, 2, 3), (), True).shape == (0, 2, 3)


def test_maps_of_gpu_tensors_are_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lookup, "_served_by_triton", lambda x: True)
    monkeypatch.setattr(kernels, "fused", lambda compiled, x, parameters, divides: (compiled.name, parameters, divides))
    with torch._subclasses.FakeTensorMode():
        x = torch.empty(2, 3, device="cuda")
    assert lookup.fused_features(lookup.MapKernel(DPFP_MAP, (2,)), "sum", x) == ("dpfp", (2,), True)
    assert lookup.fused_features(lookup.MapKernel(ELU_MAP), "none", x) == ("elu_plus_one", (), False)
