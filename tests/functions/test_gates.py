"""Gates that a rule computes itself: the formulas in plain Python."""

import math

import pytest
import torch

from fastweights.functions.gates import decay_gate, log_decay_of, strength_of


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


@pytest.mark.parametrize("channels", [(), (3,)])
@pytest.mark.parametrize("bound", [None, -5.0])
@pytest.mark.parametrize("rated", [False, True])
def test_the_decay_of_every_head_and_channel(channels: tuple[int, ...], bound: float | None, rated: bool) -> None:
    if not rated and bound is None:
        return
    g = torch.randn(1, 1, 2, *channels, dtype=torch.float64)
    bias, rates = torch.randn(g[0, 0].numel(), dtype=torch.float64), torch.tensor([0.3, -0.8], dtype=torch.float64)
    found = decay_gate(g, rates if rated else None, bias, bound).flatten().tolist()
    for i, (x, b, y) in enumerate(zip(g.flatten().tolist(), bias.tolist(), found, strict=True)):
        rate = math.exp(rates[i * 2 // len(found)]) if rated else 1.0
        expected = -rate * softplus(x + b) if bound is None else bound * sigmoid(rate * (x + b))
        assert y == pytest.approx(expected, rel=1e-12)


def test_low_precision_is_computed_in_float32() -> None:
    assert decay_gate(torch.randn(1, 2, 2).bfloat16(), torch.zeros(2)).dtype == torch.float32
    assert strength_of(torch.randn(1, 2, 2).bfloat16(), True, False).dtype == torch.float32


def test_what_is_given_is_used_as_it_is_unless_asked() -> None:
    x = torch.randn(1, 2, 2)
    assert log_decay_of(x, False, None, None) is x
    assert strength_of(x, False, False) is x
    assert torch.equal(strength_of(x, True, True), 2 * x.sigmoid())
