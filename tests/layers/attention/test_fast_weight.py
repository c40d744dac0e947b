"""The layer against direct formulas: causal and not, heads, and what it refuses."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from combinations import usable_backends
from fastweights.feature_maps import EluPlusOne, Identity
from fastweights.layers import FastWeightAttention
from fastweights.memory import AttentionNormalisation, FastWeightState, NoNormalisation, SumNormalisation
from fastweights.update_rules import DeltaRule, NormalisedDeltaRule, SumRule

BACKENDS = usable_backends(torch.float64)
EXACT = {"rtol": 1e-10, "atol": 1e-12}


def elu(x: Tensor) -> Tensor:
    return torch.where(x > 0, x + 1, x.exp())


def sum_normalised(x: Tensor) -> Tensor:
    return elu(x) / elu(x).sum(-1, keepdim=True)


def delta_memory(keys: Tensor, values: Tensor, beta: Tensor) -> Tensor:
    weights = torch.zeros(values.shape[-1], keys.shape[-1], dtype=torch.float64)
    for key, value, strength in zip(keys, values, beta, strict=True):
        weights = weights + strength * torch.outer(value - weights @ key, key)
    return weights


@pytest.mark.parametrize("backend", BACKENDS)
def test_each_head_is_a_memory_of_its_own(backend: str) -> None:
    layer = FastWeightAttention(6, 3, key_dim=4, value_dim=5, feature_map=EluPlusOne(), backend=backend).double()
    x = torch.randn(1, 9, 6, dtype=torch.float64)
    q, k, v, b = (x[0] @ layer.projection.weight.T).split([12, 12, 15, 3], dim=-1)
    reads = []
    for head in range(3):
        keys, queries = (sum_normalised(u[:, 4 * head : 4 * head + 4]) for u in (k, q))
        values, beta = v[:, 5 * head : 5 * head + 5], b[:, head].sigmoid()
        last = delta_memory(keys, values, beta)
        reads.append(last @ queries[-1])
        assert_close(layer(x)[1].weights[0, head], last, **EXACT)
    assert_close(layer(x)[0][0, -1], layer.output.weight @ torch.cat(reads), **EXACT)


@pytest.mark.parametrize("backend", BACKENDS)
def test_non_causal_attention_is_the_direct_formula(backend: str) -> None:
    layer = FastWeightAttention(
        8,
        1,
        key_dim=4,
        feature_map=EluPlusOne(),
        update_rule=SumRule(),
        normalisation=NoNormalisation(),
        attention_normalisation=True,
        causal=False,
        backend=backend,
    ).double()
    x = torch.randn(1, 11, 8, dtype=torch.float64)
    q, k, v = (x[0] @ layer.projection.weight.T).split([4, 4, 8], dim=-1)
    kernel = elu(q) @ elu(k).T
    assert_close(layer(x)[0][0], kernel / kernel.sum(-1, keepdim=True) @ v @ layer.output.weight.T, **EXACT)


def test_output_only_attention_normalisation_leaves_the_memory_alone() -> None:
    choices = (False, AttentionNormalisation(retrieval=False))
    plain, divided = (
        FastWeightAttention(8, 2, feature_map=EluPlusOne(), attention_normalisation=choice).double()
        for choice in choices
    )
    divided.load_state_dict(plain.state_dict())
    x = torch.randn(2, 9, 8, dtype=torch.float64)
    (y, before), (z, after) = plain(x), divided(x)
    assert_close(after.weights, before.weights, **EXACT)
    assert not torch.allclose(y, z)


def test_attention_normalisation_turns_the_delta_rule_into_the_normalised_one() -> None:
    one = FastWeightAttention(8, 2, update_rule=DeltaRule(), attention_normalisation=True).double()
    other = FastWeightAttention(8, 2, update_rule=NormalisedDeltaRule()).double()
    other.load_state_dict(one.state_dict())
    x = torch.randn(2, 9, 8, dtype=torch.float64)
    assert torch.equal(one(x)[0], other(x)[0])


def test_read_scale_multiplies_what_is_read() -> None:
    plain, scaled = FastWeightAttention(8, 2), FastWeightAttention(8, 2, read_scale=0.5)
    scaled.load_state_dict(plain.state_dict())
    x = torch.randn(2, 9, 8)
    assert_close(scaled(x)[0], 0.5 * plain(x)[0])


def test_strengths_are_one_per_head_and_only_where_a_rule_uses_them() -> None:
    assert FastWeightAttention(128, 8).projection.weight.shape == (8 * (3 * 16 + 1), 128)
    assert FastWeightAttention(128, 8, update_rule=SumRule()).projection.weight.shape == (8 * 3 * 16, 128)
    extra = sum(p.numel() for p in FastWeightAttention(128, 8).parameters()) - sum(
        p.numel() for p in FastWeightAttention(128, 8, update_rule=SumRule()).parameters()
    )
    assert 16 * extra == 16_384, "the 16 K parameters of Table 5"


def test_no_steps_give_no_output_and_the_same_state() -> None:
    layer = FastWeightAttention(8, 2, attention_normalisation=True)
    _, state = layer(torch.randn(2, 3, 8))
    y, after = layer(torch.randn(2, 0, 8), state)
    assert y.shape == (2, 0, 8)
    assert after == state


def test_the_future_does_not_change_the_past() -> None:
    layer, x = FastWeightAttention(8, 2), torch.randn(2, 30, 8)
    changed = x.clone()
    changed[:, 17:] = torch.randn(2, 13, 8)
    assert torch.equal(layer(x)[0][:, :17], layer(changed)[0][:, :17])


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"num_heads": 3}, "positive divisor of model_dim 8, got 3"),
        ({"feature_map": Identity(), "attention_normalisation": True}, "can be negative"),
        ({"feature_map": Identity(), "update_rule": NormalisedDeltaRule()}, "can be negative"),
    ],
)
def test_choices_that_do_not_go_together_are_refused(more: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        FastWeightAttention(8, **{"num_heads": 2, **more})


def test_states_of_another_kind_are_refused() -> None:
    layer, x = FastWeightAttention(8, 2), torch.randn(2, 3, 8)
    with pytest.raises(ValueError, match="state: expected weights of shape"):
        layer(x, FastWeightState.zeros(1, 2, 4, 8))
    with pytest.raises(ValueError, match="normaliser if and only if"):
        layer(x, FastWeightState.zeros(2, 2, 4, 8, normaliser=True))
    with pytest.raises(ValueError, match="log_scale if and only if"):
        layer(x, FastWeightState.zeros(2, 2, 4, 8, log_scale=True))


def test_default_is_the_papers_own_layer() -> None:
    layer = FastWeightAttention(8, 2)
    assert layer.update_rule == DeltaRule()
    assert layer.mapping.normalisation == SumNormalisation()
    assert str(layer.mapping.feature_map) == "DPFP(nu=1)"
