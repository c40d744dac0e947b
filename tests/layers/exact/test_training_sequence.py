"""A sequence in training as one node: bit for bit the general path, and the general path where anything is special."""

from typing import Any

import pytest
import torch
from torch import Tensor

from fastweights import DPFP, EluPlusOne, FastWeightAttention, FeatureMap, Normalisation, ShortConvolution, UpdateRule
from fastweights.kernels.native import library
from fastweights.layers.attention import fast_weight
from fastweights.layers.exact.training_sequence import training_sequence
from fastweights.memory import NORMALISATIONS, FastWeightState, NoNormalisation
from fastweights.update_rules import DeltaRule, GatedDeltaRule, SumRule

if (problem := library.unavailable()) is not None:
    pytest.skip(problem, allow_module_level=True)

DIM, HEADS, STEPS = 32, 2, 150


def make(dtype: torch.dtype = torch.float32, **choices: Any) -> FastWeightAttention:
    torch.manual_seed(0)
    return FastWeightAttention(DIM, HEADS, read_scale=0.3, **choices).to(dtype)


def served(layer: FastWeightAttention, x: Tensor, state: FastWeightState | None = None) -> bool:
    """Whether the one node takes what the layer projects."""
    state = layer.initial_state(len(x), x.dtype) if state is None else state
    return training_sequence(layer, layer.projection(x), state) is not None


def everything(layer: FastWeightAttention, x: Tensor, weights: Tensor) -> list[Tensor]:
    """Outputs and final weights of a carried memory, and the gradients of all that leads to them."""
    x, weights = x.clone().requires_grad_(), weights.clone().requires_grad_()
    state = FastWeightState(weights, None, torch.zeros(len(x), dtype=torch.int64))
    y, after = layer(x, state)
    loss = (y.cos() + y).sum() + after.weights.sin().sum()
    return [y, after.weights, after.steps, *torch.autograd.grad(loss, [x, weights, *layer.parameters()])]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("rule", [DeltaRule(), DeltaRule(negative=True), SumRule()], ids=str)
@pytest.mark.parametrize("normalisation", [made() for made in NORMALISATIONS.values()], ids=str)
@pytest.mark.parametrize("feature_map", [DPFP(nu=1), DPFP(nu=2), EluPlusOne()], ids=str)
def test_equals_the_general_path_bit_for_bit(
    feature_map: FeatureMap,
    normalisation: Normalisation,
    rule: UpdateRule,
    dtype: torch.dtype,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layer = make(dtype, feature_map=feature_map, normalisation=normalisation, update_rule=rule)
    # The delta rule diverges on keys that are not normalised.
    x = torch.randn(3, STEPS if normalisation != NoNormalisation() else 6, DIM, dtype=dtype)
    weights = 0.1 * torch.randn(3, HEADS, layer.value_dim, layer.mapping.feature_dim, dtype=dtype)
    assert served(layer, x)
    found = everything(layer, x, weights)
    monkeypatch.setattr(fast_weight, "training_sequence", lambda *_: None)
    for ours, expected in zip(found, everything(layer, x, weights), strict=True):
        assert torch.equal(ours, expected)


class OtherAttention(FastWeightAttention):
    """A layer of somebody who may have changed anything."""


def test_the_general_path_serves_whatever_is_special() -> None:
    x = torch.randn(2, 5, DIM)
    assert served(make(), x)
    for choices in (
        {"update_rule": GatedDeltaRule()},
        {"update_rule": DeltaRule(beta_bias=1.0)},
        {"attention_normalisation": True},
        {"convolution": ShortConvolution()},
        {"num_key_heads": 1},
        {"value_skip": True},
        {"causal": False},
        {"backend": "chunked"},
    ):
        assert not served(make(**choices), x), choices
    assert not served(OtherAttention(DIM, HEADS), x)
    hooked = make()
    hooked.mapping.register_forward_hook(lambda *_: None)
    assert not served(hooked, x)
    with torch.no_grad():
        assert not served(make(), x)


def test_masks_get_the_general_path(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = make(), torch.randn(2, 5, DIM)
    monkeypatch.setattr(fast_weight, "training_sequence", lambda *_: pytest.fail("a mask was ignored"))
    layer(x, mask=torch.ones(2, 5, dtype=torch.bool))
    layer(x, boundaries=torch.zeros(2, 5, dtype=torch.bool))


def test_gradients_of_gradients_are_refused_and_first_ones_with_a_graph_are_not() -> None:
    layer, x = make(torch.float64), torch.randn(2, 5, DIM, dtype=torch.float64, requires_grad=True)
    (expected,) = torch.autograd.grad(layer(x)[0].sum(), x)
    (found,) = torch.autograd.grad(layer(x)[0].sum(), x, create_graph=True)
    torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-13)
    with pytest.raises(RuntimeError, match="no second derivative"):
        found.square().sum().backward()


def test_low_precision_is_close_to_the_general_path(monkeypatch: pytest.MonkeyPatch) -> None:
    layer, x = make(feature_map=EluPlusOne()), torch.randn(2, STEPS, DIM)
    exact = layer(x)[0]
    with torch.autocast("cpu", torch.bfloat16):
        assert served(layer, x)
        fused = layer(x)[0]
        monkeypatch.setattr(fast_weight, "training_sequence", lambda *_: None)
        general = layer(x)[0]
    assert fused.dtype == general.dtype == torch.bfloat16
    errors = [(y.float() - exact).abs().max().item() / exact.abs().max().item() for y in (fused, general)]
    assert errors[0] <= 2**-6
    assert errors[0] <= 1.1 * errors[1]
