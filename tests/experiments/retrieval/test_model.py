"""The model of the synthetic experiments: its cheap form against the plain one, initialisation, and what it can do."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn.functional import one_hot
from torch.testing import assert_close

from fastweights.experiments.retrieval.model import RetrievalModel, retrieval_loss
from fastweights.experiments.retrieval.reads import FastWeightRead, Pairs, Read, SoftmaxRead
from fastweights.feature_maps import DPFP, EluPlusOne, Favor, FeatureMap, Tanh
from fastweights.memory import AttentionNormalisation, L2Normalisation, NoNormalisation, SumNormalisation, record
from fastweights.update_rules import DeltaRule, FastWeightMemoryRule, ProgrammerRule, SumRule

NORMALISED = AttentionNormalisation()


def sum_rule(feature_map: FeatureMap, epsilon: float = 1e-6) -> FastWeightRead:
    return FastWeightRead(
        feature_map, SumRule(), NoNormalisation(), attention_normalisation=NORMALISED, epsilon=epsilon
    )


EVERY_READ: dict[str, Read] = {
    "softmax": SoftmaxRead(),
    "elu sum": sum_rule(EluPlusOne()),
    "dpfp1 sum": sum_rule(DPFP(1)),
    "dpfp3 sum": sum_rule(DPFP(3)),
    "dpfp1 sum without attention normalisation": FastWeightRead(DPFP(1), SumRule(), NoNormalisation()),
    "dpfp2 sum with both": FastWeightRead(DPFP(2), SumRule(), SumNormalisation(), attention_normalisation=NORMALISED),
    "favor sum": sum_rule(Favor(9)),
    # Stabilised features are in units of their own, to which no epsilon of other units can be added.
    "favor stabilised sum": sum_rule(Favor(9, stabilised=True), epsilon=0.0),
    "elu delta": FastWeightRead(EluPlusOne()),
    "dpfp2 delta": FastWeightRead(DPFP(2)),
    "dpfp1 delta l2": FastWeightRead(DPFP(1), DeltaRule(), L2Normalisation()),
    "dpfp1 delta with attention normalisation": FastWeightRead(DPFP(1), attention_normalisation=NORMALISED),
    "favor delta": FastWeightRead(Favor(9)),
    "favor stabilised delta": FastWeightRead(Favor(9, stabilised=True), epsilon=0.0),
    "dpfp1 schlag2021": FastWeightRead(DPFP(1), FastWeightMemoryRule(), NoNormalisation()),
    "tanh schlag2021": FastWeightRead(Tanh(), FastWeightMemoryRule(), NoNormalisation()),
    "tanh schlag2021 without layer norm": FastWeightRead(
        Tanh(), FastWeightMemoryRule(layer_norm=False), NoNormalisation(), clamp_first_write=True
    ),
    "programmer": FastWeightRead(EluPlusOne(), ProgrammerRule(), NoNormalisation()),
}


def plain_read(model: RetrievalModel, keys: Tensor, values: Tensor, queries: Tensor, features: Tensor | None) -> Tensor:
    """The model as the paper writes it: one-hot vectors, dense products, W written step by step."""
    attention, num_keys = model.attention, model.num_keys
    one_hot_values = one_hot(values, num_keys).to(model.embedding.dtype)
    pairs = torch.cat([one_hot_values, model.embedding[keys]], dim=-1)
    projected, query = model.key_projection(pairs), model.query_projection(model.embedding[queries])
    if isinstance(attention, SoftmaxRead):
        scores = torch.einsum("bqd,btd->bqt", query, projected) / math.sqrt(model.key_dim)
        return scores.softmax(dim=-1) @ one_hot_values
    assert isinstance(attention, FastWeightRead)
    gates = {}
    if model.gate_projection is not None:
        gates["beta"] = model.gate_projection(pairs)[:, None, :, 0].sigmoid()
    return attention.read_by_definition(Pairs(projected, values, gates, num_keys), query, features)


@pytest.mark.parametrize("queries", [1, 6])
@pytest.mark.parametrize("steps", [1, 33])
@pytest.mark.parametrize("attention", EVERY_READ.values(), ids=EVERY_READ.keys())
def test_matches_the_plain_model(attention: Read, steps: int, queries: int) -> None:
    model = RetrievalModel(5, attention, key_dim=4).double()
    keys, values = torch.randint(5, (2, 3, steps))
    asked = torch.randint(5, (3, queries))
    features = model.draw_features(torch.Generator().manual_seed(1))
    expected = plain_read(model, keys, values, asked, features)
    actual = model(keys, values, asked, features)
    assert_close(actual, expected, rtol=1e-10, atol=1e-12)
    slope, parameters = torch.randn_like(expected), tuple(model.parameters())
    wanted = torch.autograd.grad(expected, parameters, slope, materialize_grads=True)
    found = torch.autograd.grad(actual, parameters, slope, materialize_grads=True)
    assert_close(found, wanted, rtol=1e-9, atol=1e-11)


def test_initial_weights_ignore_the_number_of_inputs_with_fast_weights() -> None:
    model = RetrievalModel(60, FastWeightRead(), generator=torch.Generator().manual_seed(1))
    assert model.embedding.shape == (60, 132)
    assert model.key_projection.weight.shape == (64, 60 + 132)
    assert model.query_projection.weight.shape == (64, 132)
    for projection in (model.key_projection, model.query_projection):
        assert projection.weight.abs().max().item() == pytest.approx(0.125, rel=1e-3)
        assert projection.weight.std().item() == pytest.approx(0.125 / math.sqrt(3), rel=0.02)
        assert projection.bias.abs().max().item() <= 1 / math.sqrt(projection.in_features)
    assert model.gate_projection is not None
    assert model.gate_projection.weight.abs().max().item() <= 1 / math.sqrt(192)
    assert model.embedding.std().item() == pytest.approx(1, rel=0.03)


def test_softmax_attention_starts_from_xavier_weights_and_has_no_strengths() -> None:
    model = RetrievalModel(60, SoftmaxRead(), generator=torch.Generator().manual_seed(1))
    assert model.gate_projection is None
    for projection in (model.key_projection, model.query_projection):
        bound = math.sqrt(6 / (projection.in_features + 64))
        assert projection.weight.abs().max().item() == pytest.approx(bound, rel=1e-3)


def test_the_initial_model_is_a_function_of_the_generator() -> None:
    models = [RetrievalModel(6, FastWeightRead(), generator=torch.Generator().manual_seed(seed)) for seed in (1, 1, 2)]
    first, same, other = (torch.cat([p.flatten() for p in model.parameters()]) for model in models)
    assert torch.equal(first, same)
    assert not torch.equal(first, other)


def test_the_loss_is_half_the_squared_distance() -> None:
    reads, targets = torch.randn(3, 4, 5, dtype=torch.float64), torch.randint(5, (3, 4))
    expected = (one_hot(targets, 5) - reads).square().sum(dim=-1) / 2
    assert_close(retrieval_loss(reads, targets), expected, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("name", ["dpfp1 sum", "softmax", "dpfp2 delta"])
def test_only_the_delta_rule_sees_the_order_of_writes(name: str) -> None:
    model = RetrievalModel(6, EVERY_READ[name]).double()
    keys, values = torch.randint(6, (2, 2, 12))
    queries = torch.arange(6).expand(2, 6)
    order = torch.randperm(12)
    change = (model(keys, values, queries) - model(keys[:, order], values[:, order], queries)).abs().max()
    assert change > 1e-4 if name == "dpfp2 delta" else change < 1e-12


def test_literal_favor_underflows_where_the_stabilised_one_does_not() -> None:
    keys = torch.arange(200)[None]
    values, queries = keys.flip(1), keys
    outcomes = {}
    for stabilised in (False, True):
        attention = sum_rule(Favor(64, stabilised=stabilised))
        model = RetrievalModel(200, attention, generator=torch.Generator().manual_seed(1))
        reads = model(keys, values, queries)
        loss = retrieval_loss(reads, values).mean()
        gradient = torch.autograd.grad(loss, model.embedding)[0]
        outcomes[stabilised] = (loss.item(), reads.abs().sum(dim=-1).mean().item(), gradient.norm().item())
    # E|k|² is about 148: features of size exp(-|k|²/2) vanish beside the epsilon, and with them loss and gradient.
    assert outcomes[False] == (pytest.approx(0.5, abs=1e-6), pytest.approx(0, abs=1e-6), pytest.approx(0, abs=1e-6))
    assert outcomes[True][1] == pytest.approx(1, abs=1e-4)
    assert outcomes[True][2] > 1e-3


def test_a_zero_key_writes_nothing_instead_of_spoiling_everything() -> None:
    model = RetrievalModel(400, FastWeightRead(Favor(64)), generator=torch.Generator().manual_seed(1))
    keys = torch.arange(400)[None]
    reads = model(keys, keys, keys[:, :5])
    assert reads.isfinite().all()
    gradients = torch.autograd.grad(reads.sum(), list(model.parameters()), materialize_grads=True)
    assert all(gradient.isfinite().all() for gradient in gradients)


def test_a_layer_normalised_read_has_unit_variance() -> None:
    model = RetrievalModel(20, EVERY_READ["dpfp1 schlag2021"], generator=torch.Generator().manual_seed(1))
    keys, values = torch.randint(20, (2, 4, 40))
    reads = model(keys, values, keys[:, :3])
    assert_close(reads.mean(dim=-1), torch.zeros(4, 3), atol=1e-5, rtol=0)
    # What makes a loss of 0.001 impossible for this baseline: |y|² is near S, not 1.
    assert_close(reads.square().sum(dim=-1), torch.full((4, 3), 20.0), atol=2, rtol=0)


@pytest.mark.parametrize("clamp_first_write", [False, True])
def test_a_recording_ends_with_the_memory_that_is_read(clamp_first_write: bool) -> None:
    attention = FastWeightRead(
        DPFP(1), FastWeightMemoryRule(layer_norm=False), NoNormalisation(), clamp_first_write=clamp_first_write
    )
    model = RetrievalModel(6, attention, key_dim=8, generator=torch.Generator().manual_seed(0))
    keys, values = torch.randint(6, (2, 3, 9), generator=torch.Generator().manual_seed(1))
    with record(model) as seen:
        model(keys, values, keys[:, :1])
    trace = seen[""]
    assert trace["weights"].shape == (3, 1, 9)
    assert trace.positions[0].tolist() == list(range(9))
    assert (trace["weights"][..., 1:] <= 1 + 1e-6).all()
    assert_close(trace.final.singular_values.square().sum(-1).sqrt(), trace["weights"][..., -1])
