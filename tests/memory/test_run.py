"""Running rules with masks, scales and normalisers: what `run_rule` adds to the operator."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from combinations import usable_backends
from fastweights.memory import AttentionNormalisation, FastWeightState, WriteInputs, run_rule
from fastweights.shapes import Gates
from fastweights.update_rules import (
    Coefficients,
    DeltaRule,
    FastWeightMemoryRule,
    LinearRule,
    NormalisedDeltaRule,
    SumRule,
    UpdateRule,
)
from fastweights.update_rules.normalised_delta import reciprocal_or_zero

BACKENDS = usable_backends(torch.float64)
EXACT = {"rtol": 1e-10, "atol": 1e-12}


def example(steps: int = 9) -> tuple[WriteInputs, Tensor]:
    keys, queries = (torch.rand(2, 3, steps, 4, dtype=torch.float64) for _ in range(2))
    values = torch.randn(2, 3, steps, 5, dtype=torch.float64)
    return WriteInputs(keys, values, {"beta": torch.rand(2, 3, steps, dtype=torch.float64)}), queries


def empty(**more: bool) -> FastWeightState:
    return FastWeightState.zeros(2, 3, 5, 4, dtype=torch.float64, **more)


def by_steps(rule: UpdateRule, writes: WriteInputs, state: FastWeightState) -> Tensor:
    weights, normaliser = state.weights, state.normaliser
    for t in range(writes.keys.shape[2]):
        now = {"beta": writes.gates["beta"][:, :, t]}
        weights = rule.step(weights, writes.keys[:, :, t], writes.values[:, :, t], now, normaliser)
        normaliser = None if normaliser is None else normaliser + writes.keys[:, :, t]
    return weights


@pytest.mark.parametrize("rule", [SumRule(), DeltaRule(), NormalisedDeltaRule(), FastWeightMemoryRule()], ids=str)
def test_every_backend_ends_where_the_definition_ends(rule: UpdateRule) -> None:
    (writes, queries), state = example(), empty(normaliser=rule.needs_normaliser)
    attention = AttentionNormalisation() if rule.needs_normaliser else None
    for backend in BACKENDS if isinstance(rule, LinearRule) else ["auto", "recurrent"]:
        _, after = run_rule(rule, writes, queries, state, attention_normalisation=attention, backend=backend)
        assert_close(after.weights, by_steps(rule, writes, state), **EXACT)
        assert after.steps.tolist() == [9, 9]


@pytest.mark.parametrize("backend", BACKENDS)
def test_scales_apart_are_scales_of_the_keys(backend: str) -> None:
    # Scales that fit into float64, so that the plain memory with scaled keys is the reference.
    (writes, queries), scales = example(), 5 * torch.randn(2, 3, 9, dtype=torch.float64)
    scaled = writes._replace(keys=writes.keys * scales.exp()[..., None])
    attention = AttentionNormalisation()
    expected, plain = run_rule(
        DeltaRule(), scaled, queries, empty(normaliser=True), attention_normalisation=attention, backend=backend
    )
    actual, after = run_rule(
        DeltaRule(),
        writes._replace(log_scales=scales),
        queries,
        empty(normaliser=True, log_scale=True),
        attention_normalisation=attention,
        backend=backend,
    )
    assert_close(actual, expected, rtol=1e-8, atol=1e-10)
    assert_close(after.log_scale, scales.amax(-1), **EXACT)
    assert_close(after.normaliser * after.log_scale.exp()[..., None], plain.normaliser, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("backend", BACKENDS)
def test_masks_may_cut_any_steps_out(backend: str) -> None:
    (writes, queries), mask = example(), torch.rand(2, 9) > 0.4
    keys, values, beta = writes.keys, writes.values, writes.gates["beta"]
    padded = [x.masked_fill(~mask.view(2, 1, 9, *[1] * (x.dim() - 3)), math.nan) for x in (keys, values, beta)]
    poisoned = WriteInputs(*padded[:2], {"beta": padded[2]}, mask)
    reads, after = run_rule(DeltaRule(), poisoned, queries, empty(), backend=backend)
    for row in range(2):
        kept = [x[row : row + 1, :, mask[row]] for x in (keys, values, beta)]
        start = FastWeightState.zeros(1, 3, 5, 4, dtype=torch.float64)
        expected, alone = run_rule(
            DeltaRule(),
            WriteInputs(*kept[:2], {"beta": kept[2]}),
            queries[row : row + 1, :, mask[row]],
            start,
            backend=backend,
        )
        assert_close(reads[row : row + 1, :, mask[row]], expected, **EXACT)
        assert_close(after.weights[row : row + 1], alone.weights, **EXACT)
        assert after.steps[row] == mask[row].sum()


def test_not_causal_reads_the_final_memory_with_any_number_of_queries() -> None:
    (writes, _), queries = example(), torch.rand(2, 3, 4, 4, dtype=torch.float64)
    reads, after = run_rule(DeltaRule(), writes, queries, empty(), causal=False)
    assert_close(reads, torch.einsum("bhvk,bhtk->bhtv", after.weights, queries), **EXACT)


def test_a_reciprocal_is_zero_where_nothing_overlaps() -> None:
    x = torch.tensor([2.0, 0.0, 1e-20, 1e-15], requires_grad=True)
    y = reciprocal_or_zero(x)
    y.sum().backward()
    assert y.tolist() == [0.5, 0.0, 0.0, pytest.approx(1e15)]
    assert x.grad.isfinite().all()
    assert x.grad[1:3].tolist() == [0.0, 0.0]


def test_what_cannot_be_run_is_refused() -> None:
    (writes, queries), attention = example(), AttentionNormalisation()
    with pytest.raises(ValueError, match="needs a state with a normaliser"):
        run_rule(DeltaRule(), writes, queries, empty(), attention_normalisation=attention)
    with pytest.raises(ValueError, match="'chunked' cannot run FastWeightMemoryRule, which is not linear"):
        run_rule(FastWeightMemoryRule(), writes, queries, empty(), backend="chunked")
    scaled = writes._replace(log_scales=torch.zeros(2, 3, 9, dtype=torch.float64))
    with pytest.raises(ValueError, match="takes no keys with a scale apart"):
        run_rule(FastWeightMemoryRule(), scaled, queries, empty())
    with pytest.raises(ValueError, match="need a state with a log_scale, got one without"):
        run_rule(SumRule(), scaled, queries, empty())


class Fading(SumRule):
    """W ← ½ W + v ⊗ k."""

    def coefficients(self, keys: Tensor, gates: Gates, overlaps: Tensor | None = None) -> Coefficients:
        return super().coefficients(keys, gates)._replace(decay=torch.full_like(keys[..., 0], 0.5))


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_padded_step_does_not_fade_either(backend: str) -> None:
    (writes, queries), mask = example(3), torch.tensor([[True, False, True]] * 2)
    _, after = run_rule(Fading(), writes._replace(mask=mask), queries, empty(), backend=backend)
    first, last = (torch.einsum("bhv,bhk->bhvk", writes.values[:, :, t], writes.keys[:, :, t]) for t in (0, 2))
    assert_close(after.weights, first / 2 + last, **EXACT)
