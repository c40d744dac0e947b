"""The random features of a layer: when they are drawn, that they are kept, and the stabilised form."""

from collections.abc import Callable
from copy import deepcopy

import pytest
import torch
from torch import Tensor

from combinations import usable_backends
from fastweights.feature_maps import DPFP, Favor
from fastweights.layers import FastWeightAttention, FastWeightCrossAttention
from fastweights.memory import L2Normalisation, NoNormalisation, SumNormalisation
from fastweights.update_rules import DeltaRule, FastWeightMemoryRule, SumRule, UpdateRule

BACKENDS = usable_backends(torch.float64)


def features(layer: FastWeightAttention) -> Tensor:
    return layer.mapping.projection.clone()


def stabilised(rule: UpdateRule, favor: Favor, **more: object) -> FastWeightAttention:
    torch.manual_seed(0)
    more = {"normalisation": NoNormalisation(), "attention_normalisation": True, **more}
    return FastWeightAttention(8, 2, feature_map=favor, update_rule=rule, **more).double().eval()


def test_training_redraws_for_each_new_sequence_and_evaluation_never() -> None:
    layer, x = FastWeightAttention(8, 2, feature_map=Favor(6)), torch.randn(2, 5, 8)
    first = features(layer)
    _, state = layer(x)
    second = features(layer)
    assert not torch.equal(first, second)
    layer(x, state)
    assert torch.equal(features(layer), second), "a memory is read with the features it was written with"
    layer.eval()
    outputs = [layer(x)[0] for _ in range(2)]
    assert torch.equal(features(layer), second)
    assert torch.equal(*outputs)


def test_cross_attention_reads_with_the_features_it_wrote_with() -> None:
    layer, source = FastWeightCrossAttention(8, 2, feature_map=Favor(6)), torch.randn(2, 5, 8)
    before = features(layer)
    state = layer.write(source)
    written = features(layer)
    layer(torch.randn(2, 3, 8), state)
    assert not torch.equal(before, written)
    assert torch.equal(features(layer), written)


def test_resample_is_reproducible_and_shared_by_keys_and_queries() -> None:
    layer = FastWeightAttention(8, 2, feature_map=Favor(6)).eval()
    layer.resample(torch.Generator().manual_seed(3))
    first = features(layer)
    layer.resample(torch.Generator().manual_seed(3))
    assert torch.equal(features(layer), first)
    layer.resample(torch.Generator().manual_seed(4))
    assert not torch.equal(features(layer), first)
    x = torch.randn(2, 5, 4)
    assert torch.equal(layer.mapping(x)[0], SumNormalisation()(Favor(6)(x, layer.mapping.projection)))
    FastWeightAttention(8, 2, feature_map=DPFP(1)).resample()  # has nothing to draw, and says nothing


def test_features_are_saved_with_the_model() -> None:
    layer, other = (FastWeightAttention(8, 2, feature_map=Favor(6)).eval() for _ in range(2))
    x = torch.randn(2, 5, 8)
    assert not torch.equal(features(layer), features(other))
    other.load_state_dict(layer.state_dict())
    assert torch.equal(other(x)[0], layer(x)[0])


def test_a_redraw_does_not_disturb_an_earlier_backward_pass() -> None:
    layer, x = FastWeightAttention(8, 2, feature_map=Favor(6)), torch.randn(2, 5, 8)
    y, _ = layer(x)
    layer.resample()
    y.sum().backward()
    assert layer.projection.weight.grad.isfinite().all()


def gradient(layer: FastWeightAttention, x: Tensor) -> Tensor:
    return torch.func.grad(lambda x: layer(x)[0].square().sum())(x)


def many(layer: FastWeightAttention, x: Tensor) -> Tensor:
    return torch.func.vmap(lambda row: layer(row[None])[0][0])(x)


@pytest.mark.parametrize("transformed", [gradient, many])
def test_inside_a_function_transform_the_features_stay(
    transformed: Callable[[FastWeightAttention, Tensor], Tensor],
) -> None:
    layer, x = FastWeightAttention(8, 2, feature_map=Favor(6), backend="recurrent"), torch.randn(2, 5, 8)
    before = features(layer)
    found = transformed(layer, x)
    assert torch.equal(layer.mapping.projection, before)
    copy = deepcopy(layer).eval()
    assert torch.equal(copy(x)[0], layer.eval()(x)[0])
    torch.testing.assert_close(transformed(copy, x), found)
    layer.train()(x)
    assert not torch.equal(features(layer), before), "outside they are drawn again"


@pytest.mark.parametrize("rule", [SumRule(), DeltaRule()], ids=str)
@pytest.mark.parametrize("backend", BACKENDS)
def test_stabilised_reads_are_the_literal_ones_where_those_do_not_underflow(rule: UpdateRule, backend: str) -> None:
    layer = stabilised(rule, Favor(16, stabilised=True), backend=backend)
    literal = stabilised(rule, Favor(16))
    literal.load_state_dict(layer.state_dict())
    with torch.no_grad():
        # The stabilised map divides keys and queries by d^¼ itself.
        literal.projection.weight[:16] *= 4**-0.25
    x = (2 * torch.randn(2, 70, 8, dtype=torch.float64)).requires_grad_()
    expected, actual = literal(x)[0], layer(x)[0]
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-11)
    direction = torch.randn_like(expected)
    (expected,) = torch.autograd.grad((expected * direction).sum(), x)
    (actual,) = torch.autograd.grad((actual * direction).sum(), x)
    torch.testing.assert_close(actual, expected, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("rule", [SumRule(), DeltaRule()], ids=str)
def test_stabilised_is_causal_whatever_comes_later(rule: UpdateRule) -> None:
    layer, x = stabilised(rule, Favor(16, stabilised=True)), torch.randn(2, 20, 8, dtype=torch.float64)
    later = x.clone()
    later[:, 12:] *= 1000
    expected, actual = layer(x)[0], layer(later)[0]
    assert torch.equal(actual[:, :12], expected[:, :12])
    assert actual.isfinite().all()
    assert actual[:, 12:].abs().sum() > 0


@pytest.mark.parametrize("size", [1.0, 5.0, 30.0])
def test_stabilised_writes_and_reads_long_vectors(size: float) -> None:
    # With one key there is nothing to average: whatever its size, its value is read in full.
    layer = stabilised(SumRule(), Favor(16, stabilised=True))
    x = size * torch.randn(1, 1, 8, dtype=torch.float64)
    values = (x[0, 0] @ layer.projection.weight.T)[16:]
    torch.testing.assert_close(layer(x)[0][0, 0], layer.output.weight @ values, rtol=1e-10, atol=1e-10)
    literal = stabilised(SumRule(), Favor(16)).float()
    if size == 30:
        assert literal(x.float())[0].abs().sum() == 0, "where the literal form has lost everything"


@pytest.mark.parametrize("normalisation", [SumNormalisation(), L2Normalisation()], ids=str)
def test_a_normalisation_that_forgets_the_scale_needs_no_rescaling(normalisation: object) -> None:
    layer = stabilised(
        DeltaRule(), Favor(16, stabilised=True), normalisation=normalisation, attention_normalisation=False
    )
    y, state = layer(1000 * torch.randn(1, 6, 8, dtype=torch.float64))
    assert state.log_scale is None
    assert y.abs().sum() > 0


def test_stabilised_needs_something_that_forgets_the_scale() -> None:
    for more in ({"attention_normalisation": False}, {"update_rule": FastWeightMemoryRule()}):
        with pytest.raises(ValueError, match="needs a linear rule and attention_normalisation=True"):
            FastWeightAttention(
                8,
                2,
                feature_map=Favor(4, stabilised=True),
                normalisation=NoNormalisation(),
                **{"attention_normalisation": True, **more},
            )
