"""Extreme inputs: finite in, finite out, in values and gradients, or an error that says why.

Keys, queries and values are the input itself here (projections are identities), so that each kind of input reaches
the map unchanged. docs/math.md#extremes says what happens where.
"""

import math

import pytest
import torch
from torch import Tensor

from combinations import CHOICES, KEY_DIM, Combination
from fastweights.layers import FastWeightAttention, SoftmaxAttention
from fastweights.update_rules import DecayedSumRule, Mamba2Decay, UpdateRule
from pairwise import every_pair, pairs_first

STEPS = 4
EVERY = pairs_first(CHOICES, lambda choice: choice.options)
FEW = every_pair(CHOICES, lambda choice: choice.options)


def one_hot(steps: int, dim: int) -> Tensor:
    return torch.eye(dim)[torch.arange(steps) % dim]


def alternating(steps: int, dim: int) -> Tensor:
    return torch.where(torch.arange(steps * dim).view(steps, dim) % 2 == 0, 1.0, -1.0)


FINITE = {
    "zero": torch.zeros(STEPS, KEY_DIM),
    "one-hot": one_hot(STEPS, KEY_DIM),
    "1e20": torch.full((STEPS, KEY_DIM), 1e20),
    "-1e20": torch.full((STEPS, KEY_DIM), -1e20),
    "±1e20": alternating(STEPS, KEY_DIM) * 1e20,
    "1e20 among ordinary": torch.where(one_hot(STEPS, KEY_DIM) > 0, 1e20, 0.5),
    "-100": torch.full((STEPS, KEY_DIM), -100.0),
    "denormal": torch.full((STEPS, KEY_DIM), 1e-40),
    "denormal among ordinary": torch.where(one_hot(STEPS, KEY_DIM) > 0, 1e-40, 0.5),
    "smallest normal": torch.full((STEPS, KEY_DIM), torch.finfo(torch.float32).tiny),
    "all equal": torch.full((STEPS, KEY_DIM), 0.7),
    "largest": torch.full((STEPS, KEY_DIM), torch.finfo(torch.float32).max / 4),
}
NOT_FINITE = {"inf": math.inf, "-inf": -math.inf, "nan": math.nan}


def transparent(choice: Combination, dtype: torch.dtype = torch.float32) -> FastWeightAttention:
    """A layer of one head whose q, k and v are its input, and whose gates see its first component.

    Where Triton's interpreter runs and serves it, it runs on that.
    """
    backend = "triton" if "triton" in choice.backends(dtype) else "auto"
    layer = choice.layer(model_dim=KEY_DIM, num_heads=1, value_dim=KEY_DIM, backend=backend)
    with torch.no_grad():
        copies = 1 + 2 * choice.rule.writes_per_step
        logits = layer.projection.out_features - copies * KEY_DIM
        layer.projection.weight.copy_(torch.cat([torch.eye(KEY_DIM)] * copies + [torch.eye(KEY_DIM)[:1]] * logits))
        layer.output.weight.copy_(torch.eye(KEY_DIM))
    return layer.to(dtype)


def writes_more_of_more(rule: UpdateRule) -> bool:
    """Whether the write strength grows with the input, so that its product with a large value overflows."""
    return isinstance(rule, DecayedSumRule) and isinstance(rule.decay, Mamba2Decay)


def forward_and_backward(layer: FastWeightAttention, x: Tensor) -> tuple[list[Tensor], list[Tensor]]:
    """Reads and state, and the gradients of input and parameters."""
    x = x.clone().requires_grad_()
    y, state = layer(x)
    gradients = torch.autograd.grad(y.sum() / y.numel(), (x, *layer.parameters()), allow_unused=True)
    outputs = (y, state.weights, state.normaliser)
    return [tensor for tensor in outputs if tensor is not None], [g for g in gradients if g is not None]


@pytest.mark.parametrize("choice", EVERY, ids=str)
def test_finite_inputs_give_finite_outputs_and_gradients_or_a_clear_error(choice: Combination) -> None:
    layer = transparent(choice)
    for name, x in FINITE.items():
        outputs, gradients, refusal = [], [], ""
        try:
            outputs, gradients = forward_and_backward(layer, x[None])
        except FloatingPointError as error:
            refusal = str(error)
        assert all(tensor.isfinite().all() for tensor in outputs), name
        large = x.abs().max() >= 1e20
        assert large or all(tensor.isfinite().all() for tensor in gradients), name
        if refusal:
            assert large, f"{name}: only large inputs may overflow"
            assert "although all inputs were finite" in refusal
            small = choice.normalisation.forgets_scale and not writes_more_of_more(choice.rule)
            assert name == "largest" or not small, f"{name}: normalised keys are small"


@pytest.mark.parametrize("choice", FEW, ids=str)
def test_a_row_that_is_not_finite_stays_alone(choice: Combination) -> None:
    layer, ordinary = transparent(choice), 0.3 * torch.randn(1, STEPS, KEY_DIM)
    expected, state = layer(ordinary)
    for name, value in NOT_FINITE.items():
        x = torch.cat([torch.full((1, STEPS, KEY_DIM), value), ordinary, ordinary]).requires_grad_()
        y, after = layer(x)
        (gradient,) = torch.autograd.grad(y[1:].sum(), x)
        # Not to the last bit: torch's exp, which decays are made with, rounds by the place of a number in memory.
        torch.testing.assert_close(y[1], y[2], rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(y[1:2], expected, rtol=1e-6, atol=1e-7)
        torch.testing.assert_close(after.weights[1:2], state.weights, rtol=1e-6, atol=1e-7)
        assert gradient[1:].isfinite().all(), name


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float64])
@pytest.mark.parametrize("choice", FEW, ids=str)
def test_other_precisions(choice: Combination, dtype: torch.dtype) -> None:
    layer = transparent(choice, dtype)
    for name in ("zero", "one-hot", "-100", "denormal", "all equal"):
        outputs, gradients = forward_and_backward(layer, FINITE[name][None].to(dtype))
        assert all(tensor.isfinite().all() for tensor in (*outputs, *gradients)), name


def named(name: str) -> FastWeightAttention:
    return transparent(next(choice for choice in CHOICES if str(choice) == name))


def default() -> FastWeightAttention:
    return named("DeltaRule(negative=False, beta_bias=None)-DPFP(nu=1)-SumNormalisation-attention=none")


def test_a_zero_key_writes_nothing_and_a_zero_query_reads_zero() -> None:
    layer, x = default(), torch.tensor([[[0.5, 0.2, 0.1], [0.0, 0.0, 0.0]]])
    y, state = layer(x)
    assert torch.equal(state.weights, layer(x[:, :1])[1].weights)
    assert y[0, 0].abs().sum() > 0
    assert torch.equal(y[0, 1], torch.zeros(KEY_DIM))
    assert state.steps.tolist() == [2], "it was a step all the same"


def test_a_one_hot_key_has_no_features_under_dpfp() -> None:
    y, state = default()(torch.tensor([[[1.0, 0.0, 0.0]]]))
    assert state.weights.abs().sum() == y.abs().sum() == 0


def test_an_overflow_names_the_sequences_and_what_to_do() -> None:
    layer = named("DeltaRule(negative=False, beta_bias=None)-Identity()-NoNormalisation-attention=none")
    x = 0.5 * torch.randn(3, 40, KEY_DIM)
    x[1] = 100
    x[2] = math.nan
    with pytest.raises(FloatingPointError, match=r"sequences \[1\] .*SumNormalisation\(\) and L2Normalisation\(\)"):
        layer(x)


@pytest.mark.parametrize("name", ["zero", "one-hot", "-100", "denormal", "all equal", "1e20", "-1e20"])
def test_softmax_attention_is_finite(name: str) -> None:
    layer = SoftmaxAttention(KEY_DIM, 1)
    x = (FINITE[name][None] / (1e10 if "1e20" in name else 1)).requires_grad_()
    y, _ = layer(x)
    y.sum().backward()
    assert y.isfinite().all()
    assert x.grad.isfinite().all()
