import copy
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

from fastweights import EluPlusOne, FastWeightAttention, Favor
from fastweights.experiments.families import codec
from fastweights.experiments.language_models.config import Carrying
from fastweights.experiments.language_models.presets import PRESETS
from fastweights.experiments.language_models.published_gradient import PublishedSumAttention, leave_carried_memory_out
from fastweights.memory import AttentionNormalisation, FastWeightState, NoNormalisation
from fastweights.update_rules import SumRule

HEADS, DIM, STEPS = 2, 4, 5


def layers() -> tuple[FastWeightAttention, FastWeightAttention]:
    """The layer of the paper and the one with the published gradient, with the same weights."""
    torch.manual_seed(0)
    plain = FastWeightAttention(
        HEADS * DIM,
        HEADS,
        feature_map=EluPlusOne(),
        update_rule=SumRule(),
        normalisation=NoNormalisation(),
        attention_normalisation=AttentionNormalisation(),
    ).double()
    published = copy.deepcopy(plain)
    leave_carried_memory_out(torch.nn.Sequential(published))
    assert type(published) is PublishedSumAttention
    return plain, published


def full_memory(layer: FastWeightAttention) -> FastWeightState:
    _, state = layer(torch.randn(1, 7, HEADS * DIM, dtype=torch.float64))
    return state.detach()


def gradients(layer: FastWeightAttention, x: torch.Tensor, state: FastWeightState | None) -> torch.Tensor:
    """Of the projection to queries, keys and values: three blocks of rows."""
    layer.zero_grad()
    y, _ = layer(x, state)
    (y * torch.arange(y.numel(), dtype=y.dtype).view_as(y).cos()).sum().backward()
    assert layer.projection.weight.grad is not None
    return layer.projection.weight.grad.clone()


def test_outputs_and_the_gradients_of_keys_and_values_are_those_of_the_sum_rule() -> None:
    plain, published = layers()
    state, x = full_memory(plain), torch.randn(1, STEPS, HEADS * DIM, dtype=torch.float64)
    expected, after = plain(x, state)
    actual, same = published(x, state)
    assert_close(actual, expected, rtol=0, atol=0)
    assert_close(same.weights, after.weights, rtol=0, atol=0)
    right, wrong = gradients(plain, x, state), gradients(published, x, state)
    assert_close(wrong[HEADS * DIM :], right[HEADS * DIM :], rtol=1e-12, atol=1e-12)


def test_queries_learn_from_the_segment_alone() -> None:
    """dL/dq_t as written down: the reads of this segment's pairs, and all of z, but nothing of W_0."""
    plain, published = layers()
    state, x = full_memory(plain), torch.randn(1, STEPS, HEADS * DIM, dtype=torch.float64)
    projected = plain.projection(x).detach()
    queries, keys, values = (
        part.view(STEPS, HEADS, DIM).transpose(0, 1) for part in projected[0].split(HEADS * DIM, dim=-1)
    )
    queries.requires_grad_()
    mapped, written = EluPlusOne()(queries), EluPlusOne()(keys)
    assert state.normaliser is not None
    reads = torch.zeros(HEADS, STEPS, DIM, dtype=torch.float64)
    for head in range(HEADS):
        for t in range(STEPS):
            q = mapped[head, t]
            carried = state.weights[0, head] @ q.detach()
            own = sum((written[head, i] @ q) * values[head, i] for i in range(t + 1))
            overlap = (state.normaliser[0, head] + written[head, : t + 1].sum(0)) @ q
            reads[head, t] = (carried + own) / overlap
    y = reads.transpose(0, 1).reshape(1, STEPS, -1) @ plain.output.weight.T
    (y * torch.arange(y.numel(), dtype=y.dtype).view_as(y).cos()).sum().backward()
    assert queries.grad is not None
    expected = queries.grad.transpose(0, 1).reshape(STEPS, -1).T @ x[0]
    actual = gradients(published, x, state)[: HEADS * DIM]
    assert_close(actual, expected, rtol=1e-10, atol=1e-12)
    assert not torch.allclose(actual, gradients(plain, x, state)[: HEADS * DIM], rtol=1e-3)


def test_without_a_past_nothing_is_missing() -> None:
    plain, published = layers()
    x = torch.randn(1, STEPS, HEADS * DIM, dtype=torch.float64)
    assert_close(gradients(published, x, None), gradients(plain, x, None), rtol=1e-12, atol=1e-12)


def test_the_preset_is_the_carried_sum_rule_but_for_the_gradient() -> None:
    published, plain = (PRESETS[f"cpu-linear-sum-nopos-carried{end}"] for end in ("-published", ""))
    assert codec().from_plain(codec().to_plain(published)) == published
    usual = replace(published.task, carrying=Carrying())
    assert replace(published, task=usual, preset=plain.preset) == plain


def test_other_rules_have_no_published_gradient() -> None:
    delta = PRESETS["cpu-linear-delta-nopos-carried"].task
    with pytest.raises(ValueError, match="published_gradient: it is that of the sum rule"):
        replace(delta, carrying=Carrying(published_gradient=True))


def test_features_with_a_scale_of_their_own_are_refused() -> None:
    sums = {"update_rule": SumRule(), "normalisation": NoNormalisation(), "attention_normalisation": True}
    layer = FastWeightAttention(HEADS * DIM, HEADS, feature_map=Favor(stabilised=True), **sums)
    with pytest.raises(ValueError, match="published_gradient: it is not known for features whose scale"):
        leave_carried_memory_out(torch.nn.Sequential(layer))
