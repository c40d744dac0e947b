"""Normalised least mean squares: a write lands in full, whatever the length of the key."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fastweights import DeltaRule, FastWeightAttention, NormalisedStep, SumNormalisation
from fastweights.update_rules import WriteStrength


def written(rule: DeltaRule | NormalisedStep, weights: Tensor, key: Tensor, value: Tensor, beta: float) -> Tensor:
    gates = {"beta": torch.full((1, 1), beta, dtype=torch.float64)}
    return rule.step(weights[None, None], key[None, None], value[None, None], gates)[0, 0]


@pytest.mark.parametrize("length", [0.01, 1.0, 30.0])
def test_a_key_retrieves_what_eq_22_asks_for(length: float) -> None:
    weights, key, value = (torch.randn(*size, dtype=torch.float64) for size in ((3, 4), (4,), (3,)))
    key = key * length
    before = weights @ key
    after = written(NormalisedStep(epsilon=0.0), weights, key, value, 0.7) @ key
    assert_close(after, 0.7 * value + 0.3 * before, rtol=1e-12, atol=1e-12)


def test_a_worked_example() -> None:
    weights, key, value = torch.zeros(1, 2).double(), torch.tensor([0.5, 0.5]).double(), torch.tensor([4.0]).double()
    # |k|² = ½: the step is twice the delta rule's, ½ · 4 · 2 · k, and the key retrieves ½ · 4.
    assert_close(written(NormalisedStep(epsilon=0.0), weights, key, value, 0.5), torch.tensor([[2.0, 2.0]]).double())
    assert_close(written(DeltaRule(), weights, key, value, 0.5), torch.tensor([[1.0, 1.0]]).double())


def test_a_key_of_zero_writes_nothing() -> None:
    weights = torch.randn(3, 4, dtype=torch.float64)
    after = written(NormalisedStep(), weights, torch.zeros(4).double(), torch.ones(3).double(), 1.0)
    assert torch.equal(after, weights)


def test_write_strength_with_a_learned_bias() -> None:
    gate = WriteStrength("beta", bias=3.0)
    bias = gate.parameters(2, 1)
    assert bias["bias"].tolist() == [3.0, 3.0]
    logits = torch.randn(5, 2, 7)
    assert_close(gate(logits, **bias), torch.sigmoid(logits + 3))
    bias["bias"][1] = -1.0
    assert_close(gate(logits, **bias)[:, 1], torch.sigmoid(logits[:, 1] - 1))
    assert WriteStrength("beta").parameters(2, 1) == {}


@pytest.mark.parametrize("rule", [DeltaRule, NormalisedStep])
def test_a_layer_learns_the_bias_of_its_write_strength(rule: type[DeltaRule | NormalisedStep]) -> None:
    layer = FastWeightAttention(8, 2, update_rule=rule(beta_bias=3.0), normalisation=SumNormalisation())
    (name,) = [name for name, _ in layer.named_parameters() if "beta" in name]
    layer(torch.randn(1, 5, 8))[0].sum().backward()
    grad = layer.get_parameter(name).grad
    assert grad.shape == (2,)
    assert grad.abs().min() > 0
