"""Dropout: what is kept, what it is multiplied by, and where its random numbers come from."""

import pytest
import torch

from fastweights.layers.exact.dropout import Dropout


@pytest.mark.parametrize("p", [0.1, 0.5, 0.9])
def test_as_many_are_kept_as_asked_for_and_the_mean_stays(p: float) -> None:
    torch.manual_seed(1)
    y = Dropout(p)(torch.ones(1000, 999))
    kept = (y != 0).double().mean().item()
    assert kept == pytest.approx(1 - p, abs=5 * (p * (1 - p) / y.numel()) ** 0.5)
    assert y.max().item() == pytest.approx(1 / (1 - p), rel=1e-3)
    # In every lane of the generator's words alike.
    for lane in range(4):
        assert (y.flatten()[lane::4] != 0).double().mean().item() == pytest.approx(1 - p, abs=0.005)
    assert y.double().mean().item() == pytest.approx(1, abs=0.01)


def test_neighbours_are_independent() -> None:
    torch.manual_seed(1)
    kept = (Dropout(0.5)(torch.ones(1_000_000)) != 0).double() - 0.5
    for distance in (1, 2, 3, 4, 8, 64):
        assert (kept[distance:] * kept[:-distance]).mean().item() == pytest.approx(0, abs=0.0015)


def test_the_gradient_passes_where_the_value_does() -> None:
    x = torch.randn(64, 7, dtype=torch.float64, requires_grad=True)
    y = Dropout(0.3)(x)
    y.sum().backward()
    assert x.grad is not None
    torch.testing.assert_close(x.grad * x.detach(), y.detach())


def test_the_seed_decides() -> None:
    x = torch.ones(5, 3)
    torch.manual_seed(3)
    first = Dropout(0.5)(x)
    torch.manual_seed(3)
    assert torch.equal(Dropout(0.5)(x), first)
    assert not torch.equal(Dropout(0.5)(x), first)


def test_evaluation_and_zero_change_nothing() -> None:
    x = torch.randn(4, 4)
    assert torch.equal(Dropout(0.5).eval()(x), x)
    assert torch.equal(Dropout(0.0)(x), x)
    assert torch.equal(Dropout(1.0)(x), torch.zeros(4, 4))
    assert Dropout(0.5)(torch.empty(0, 4)).shape == (0, 4)
    assert Dropout(0.5)(x.to(torch.bfloat16)).dtype == torch.bfloat16
