"""The short convolution in blocks against its definition, with its derivatives."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fastweights.kernels import short_convolution as module
from fastweights.kernels.short_convolution import short_convolution


def spelled_out(x: Tensor, weight: Tensor, bias: Tensor | None, activated: bool) -> Tensor:
    """Σ_lag w_{-1-lag} ∘ x_{t-lag}, step by step."""
    rows = []
    for t in range(x.shape[1]):
        z = torch.zeros_like(x[:, 0]) if bias is None else bias.expand_as(x[:, 0])
        for lag in range(min(weight.shape[1], t + 1)):
            z = z + weight[:, -1 - lag] * x[:, t - lag]
        rows.append(z * z.sigmoid() if activated else z)
    return torch.stack(rows, dim=1)


def problem(steps: int, width: int, bias: bool) -> tuple[Tensor, Tensor, Tensor | None]:
    x, weight, added = torch.randn(2, steps, 3), torch.randn(3, width), torch.randn(3)
    x, weight, added = (y.double().requires_grad_() for y in (x, weight, added))
    return x, weight, added if bias else None


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of sixteen steps."""
    monkeypatch.setattr(module, "BLOCK", 1)


@pytest.mark.parametrize("activated", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize(("steps", "width"), [(1, 4), (2, 4), (17, 4), (33, 1), (40, 20), (3, 5)])
def test_it_is_the_sum_over_lags_with_its_gradients(steps: int, width: int, bias: bool, activated: bool) -> None:
    given = problem(steps, width, bias)
    wanted = [x for x in given if x is not None]
    found, expected = short_convolution(*given, activated), spelled_out(*given, activated)
    assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(expected)
    gradients = [torch.autograd.grad((y * weights).sum(), wanted) for y in (found, expected)]
    assert_close(gradients[0], gradients[1], rtol=1e-11, atol=1e-11)


def test_columns_are_turned() -> None:
    x, weight, bias = problem(20, 4, True)
    turned = x.detach().mT.contiguous().mT.requires_grad_()
    assert_close(short_convolution(turned, weight, bias), short_convolution(x, weight, bias))
    for y in (x, turned):
        short_convolution(y, weight, bias).mT.contiguous().sin().sum().backward()
    assert_close(turned.grad, x.grad)


@pytest.mark.parametrize("bias", [True, False])
def test_second_derivatives_are_right(bias: bool) -> None:
    given = problem(18, 3, bias)
    wanted = [x for x in given if x is not None]
    found = []
    for function in (short_convolution, spelled_out):
        first = torch.autograd.grad(function(*given, True).square().sum(), wanted, create_graph=True)
        found.append(torch.autograd.grad(sum(x.square().sum() for x in first), wanted))
    assert_close(found[0], found[1], rtol=1e-10, atol=1e-10)


def test_only_some_inputs_need_a_gradient() -> None:
    x, weight, bias = problem(5, 3, True)
    y = short_convolution(x.detach(), weight, bias)
    (gradient,) = torch.autograd.grad(y.sum(), weight, create_graph=True)
    assert torch.autograd.grad(gradient.sum(), weight)[0].abs().max() > 0


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is:DeprecationWarning")  # torch's own, for a jvp of conv1d
def test_transforms_of_torch() -> None:
    x, weight, bias = (y.detach() for y in problem(6, 3, True) if y is not None)
    tangent = torch.randn_like(x)
    found = torch.func.jvp(lambda z: short_convolution(z, weight, bias), (x,), (tangent,))[1]
    step = 1e-6 * tangent
    difference = (short_convolution(x + step, weight, bias) - short_convolution(x - step, weight, bias)) / 2e-6
    assert_close(found, difference, rtol=1e-6, atol=1e-7)
    each = torch.func.vmap(lambda z: short_convolution(z[None], weight, bias)[0])(x)
    assert_close(each, short_convolution(x, weight, bias))


def test_nothing_to_convolve() -> None:
    x, weight, bias = problem(0, 3, True)
    y = short_convolution(x, weight, bias)
    assert y.shape == (2, 0, 3)
    y.sum().backward()
    assert x.grad is not None
