"""ELU + 1 (Eq. 30), which low precision must not round to zero."""

import math

import pytest
import torch

from fastweights.feature_maps import EluPlusOne


def test_matches_the_definition() -> None:
    x = [-50.0, -3.0, -0.1, 0.0, 0.2, 4.0, 1e6]
    expected = torch.tensor([y + 1 if y > 0 else math.exp(y) for y in x], dtype=torch.float64)
    torch.testing.assert_close(EluPlusOne()(torch.tensor(x, dtype=torch.float64)), expected, rtol=1e-15, atol=0)


@pytest.mark.parametrize("x", [-5.0, -10.0, -20.0, -50.0, -80.0])
def test_does_not_cancel_in_bfloat16(x: float) -> None:
    value = EluPlusOne()(torch.tensor([x], dtype=torch.bfloat16))
    assert value.item() == pytest.approx(math.exp(x), rel=2**-8)
    assert (torch.nn.functional.elu(torch.tensor([-10.0], dtype=torch.bfloat16)) + 1).item() == 0, "what must not be"


def test_gradient_is_never_zero_times_infinity() -> None:
    x = torch.tensor([-1e20, -100.0, 0.0, 100.0, 1e20], requires_grad=True)
    EluPlusOne()(x).sum().backward()
    assert x.grad.tolist() == [0.0, pytest.approx(math.exp(-100), rel=1e-2), 1.0, 1.0, 1.0]
