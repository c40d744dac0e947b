"""Packed sequences: reads, gradients and final states are those of the sequences alone, for every rule."""

from itertools import pairwise
from typing import Any

import pytest
import torch
from operator_inputs import differentiate, draw, leaves
from torch import Tensor

from combinations import CHOICES, MORE, Combination, gates_of, usable_backends
from fastweights import (
    DPFP,
    UPDATE_RULES,
    EluPlusOne,
    FastWeightAttention,
    Favor,
    GatedNorm,
    ShortConvolution,
    SumNormalisation,
    UpdateRule,
    fast_weight_scan,
)
from fastweights.memory import (
    NORMALISATIONS,
    AttentionNormalisation,
    FastWeightState,
    WriteInputs,
    boundaries_of,
    decay_at_boundaries,
    last_steps,
    run_rule,
)
from fastweights.memory.packing import places, steps_after, whole_numbers
from random_problems import relative_error

pytestmark = pytest.mark.usefixtures("one_thread")

EVERY = usable_backends(torch.float64)
LENGTHS = [5, 1, 16, 9]
ENDS = [0, 5, 6, 22, 31]


def test_boundaries_of_cumulative_lengths() -> None:
    assert boundaries_of([0, 2, 3, 5], 5).tolist() == [[True, False, True, True, False]]
    assert boundaries_of(torch.tensor([0, 2, 2, 3]), 3).tolist() == [[True, False, True]]
    assert boundaries_of([0, 0], 0).shape == (1, 0)
    assert last_steps([0, 2, 3, 5]) == [1, 2, 4]


@pytest.mark.parametrize("ends", [[0, 2, 4], [1, 2, 5], [0, 3, 2, 5], [5], []], ids=str)
def test_lengths_that_do_not_fit_are_refused(ends: list[int]) -> None:
    with pytest.raises(ValueError, match="cu_seqlens: expected cumulative lengths from 0 to 5"):
        boundaries_of(ends, 5)


def test_a_sequence_without_steps_has_no_last_one() -> None:
    with pytest.raises(ValueError, match="no last one"):
        last_steps([0, 2, 2])
    for ends in ([5], [], [1, 20]):
        with pytest.raises(ValueError, match="cu_seqlens: expected cumulative lengths from 0 on"):
            last_steps(ends)


@pytest.mark.parametrize(
    "given", [None, 5, "abc", [0, 3.7, 5], [[0, 5]], torch.tensor([0.0, 5.0]), torch.tensor([[0, 5]])], ids=str
)
def test_only_whole_numbers_are_lengths(given: Any) -> None:
    with pytest.raises(ValueError, match="cu_seqlens: expected a list or a tensor of whole numbers, got"):
        whole_numbers(given, "cu_seqlens")
    assert whole_numbers((0, torch.tensor(2), 5), "cu_seqlens") == [0, 2, 5]
    assert whole_numbers(torch.tensor([0, 5], dtype=torch.int32), "cu_seqlens") == [0, 5]


def test_places_count_real_steps_since_the_sequence_began() -> None:
    begins = torch.tensor([[False, True, False, False, True, False]])
    mask = torch.tensor([[True, True, False, True, True, True]])
    assert places(begins, None, torch.tensor([7])).tolist() == [[7, 0, 1, 2, 0, 1]]
    assert places(begins, mask, torch.tensor([7])).tolist() == [[7, 0, 1, 1, 0, 1]]
    assert steps_after(begins, mask, torch.tensor([7])).tolist() == [2]
    assert steps_after(begins[:, :1], None, torch.tensor([7])).tolist() == [8]
    assert steps_after(begins[:, :0], None, torch.tensor([7])).tolist() == [7]


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize(("channels", "decays"), [(False, False), (False, True), (True, True)])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-13), (torch.float32, 2e-6)], ids=str)
def test_the_operator_keeps_packed_sequences_apart(
    backend: str, channels: bool, decays: bool, dtype: torch.dtype, bound: float
) -> None:
    tensors = draw(0, 1, 2, ENDS[-1], 4, 3, dtype, channels=channels, lookups=True)
    tensors.pop("weights")
    if not decays:
        tensors.pop("decay")
    ours = leaves(tensors)
    begins = boundaries_of(ENDS, ENDS[-1])
    decay = decay_at_boundaries(begins, ours["keys"], ours.get("decay"))
    reads, _, kept = fast_weight_scan(**ours | {"decay": decay}, backend=backend, keep=last_steps(ENDS))
    gradients = differentiate((reads,), ours)
    direction = torch.randn(reads.shape, generator=torch.Generator().manual_seed(1)).to(dtype)
    for number, (start, end) in enumerate(pairwise(ENDS)):
        alone = leaves({name: x[:, :, start:end] for name, x in tensors.items()})
        expected, final = fast_weight_scan(**alone, backend=backend)
        assert relative_error(reads[:, :, start:end].detach(), expected.detach()) <= bound
        assert relative_error(kept[:, :, number].detach(), final.detach()) <= bound
        found = torch.autograd.grad(expected, list(alone.values()), direction[:, :, start:end])
        for name, gradient in zip(alone, found, strict=True):
            here = gradients[name][:, :, start:end]
            if name == "decay":  # that of the first step is cut off, and nothing flows into it
                here, gradient = here[:, :, 1:], gradient[:, :, 1:]
            assert relative_error(here, gradient) <= max(bound, 1e-12), name


def sequences(rule: UpdateRule, steps: int, dtype: torch.dtype) -> dict[str, Tensor]:
    """Positive keys of length 1 at most, in a row of `steps` steps."""
    writes = steps * rule.writes_per_step
    keys, queries = torch.rand(1, 2, writes, 6, dtype=dtype) / 4, torch.rand(1, 2, steps, 6, dtype=dtype)
    values, strengths = torch.randn(1, 2, writes, 3, dtype=dtype), torch.rand(1, 2, writes, dtype=dtype)
    gates = {name: gate.to(dtype) for name, gate in gates_of(rule, strengths, keys, values).items()}
    return {"keys": keys, "queries": queries, "values": values} | gates


RULES = [cls() for cls in UPDATE_RULES.values()] + [rule for rule in MORE if isinstance(rule, UpdateRule)]


@pytest.mark.parametrize("rule", RULES, ids=str)
@pytest.mark.parametrize("attention", [None, AttentionNormalisation()], ids=["plain", "attention"])
@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-12), (torch.float32, 2e-6)], ids=str)
def test_every_rule_keeps_packed_sequences_apart(
    rule: UpdateRule, attention: AttentionNormalisation | None, dtype: torch.dtype, bound: float
) -> None:
    if rule.needs_normaliser and attention is None:
        pytest.skip("the rule needs a normaliser")
    row = sequences(rule, ENDS[-1], dtype)
    row = {name: x.requires_grad_() for name, x in row.items()}
    names = [gate.label for gate in rule.gates]

    def run(start: int, end: int, boundaries: Tensor | None, backend: str) -> tuple[Tensor, FastWeightState]:
        n = rule.writes_per_step
        part = {
            x: row[x][:, :, start * (row[x].shape[2] // ENDS[-1]) : end * (row[x].shape[2] // ENDS[-1])] for x in row
        }
        assert part["keys"].shape[2] == (end - start) * n
        writes = WriteInputs(part["keys"], part["values"], {x: part[x] for x in names}, boundaries=boundaries)
        state = FastWeightState.zeros(1, 2, 3, 6, normaliser=attention is not None, dtype=dtype)
        return run_rule(rule, writes, part["queries"], state, attention_normalisation=attention, backend=backend)

    for backend in usable_backends(dtype, rule):
        reads, after = run(0, ENDS[-1], boundaries_of(ENDS, ENDS[-1]), backend)
        alone = [run(start, end, None, backend) for start, end in pairwise(ENDS)]
        expected = torch.cat([read for read, _ in alone], dim=2)
        assert relative_error(reads.detach(), expected.detach()) <= bound
        assert relative_error(after.weights.detach(), alone[-1][1].weights.detach()) <= bound
        assert after.steps.tolist() == [LENGTHS[-1]]
        if attention is not None:
            assert relative_error(after.normaliser.detach(), alone[-1][1].normaliser.detach()) <= bound
        direction = torch.randn_like(reads)
        asked = list(row.values())
        found = torch.autograd.grad(reads, asked, direction, materialize_grads=True)
        wanted = torch.autograd.grad(expected, asked, direction, materialize_grads=True)
        for name, x, y in zip(row, found, wanted, strict=True):
            assert relative_error(x, y) <= bound, name


def test_the_scale_of_stabilised_features_begins_anew() -> None:
    choice = Combination(
        UPDATE_RULES["sum"](), Favor(7, stabilised=True), NORMALISATIONS["none"](), AttentionNormalisation()
    )
    layer = choice.layer().double()
    # The first sequence has keys so long that the second's would vanish beside them.
    x = torch.randn(1, 12, 8, dtype=torch.float64)
    x[:, :5] *= 60
    y, after = layer(x, boundaries=boundaries_of([0, 5, 12], 12))
    alone, state = layer(x[:, 5:])
    assert relative_error(y[:, 5:].detach(), alone.detach()) <= 1e-12
    assert relative_error(after.log_scale.detach(), state.log_scale.detach()) <= 1e-12
    assert relative_error(after.weights.detach(), state.weights.detach()) <= 1e-12


@pytest.mark.parametrize("choice", [x for x in CHOICES if isinstance(x.feature_map, DPFP)][::5], ids=str)
def test_a_layer_keeps_packed_sequences_apart(choice: Combination) -> None:
    layer = choice.layer().double()
    x, state = torch.randn(2, 9, 8, dtype=torch.float64), layer.initial_state(2, torch.float64)
    _, state = layer(torch.randn(2, 4, 8, dtype=torch.float64), state)
    # The first row goes on with what was there and then begins twice, the second begins at once and keeps on.
    begins = torch.zeros(2, 9, dtype=torch.bool)
    begins[0, [3, 7]], begins[1, 0] = True, True
    y, after = layer(x, state, boundaries=begins)
    first, row = state.select(torch.tensor([0])), x[:1]
    parts = [layer(row[:, :3], first)[0], layer(row[:, 3:7])[0], layer(row[:, 7:])[0]]
    assert relative_error(y[:1].detach(), torch.cat(parts, 1).detach()) <= 1e-12
    assert relative_error(y[1:].detach(), layer(x[1:])[0].detach()) <= 1e-12
    assert relative_error(after.weights[1:].detach(), layer(x[1:])[1].weights.detach()) <= 1e-12
    assert after.steps.tolist() == [2, 9]


@pytest.mark.parametrize(
    "parts", [{}, {"convolution": ShortConvolution(), "output_gate": GatedNorm()}], ids=["", "parts"]
)
@pytest.mark.parametrize("rule", RULES, ids=str)
def test_packed_layers_in_float32_are_those_of_the_sequences_alone(rule: UpdateRule, parts: dict[str, Any]) -> None:
    """Outputs, gradients of inputs and of all weights, and the final memory, relative to the size of each."""
    torch.manual_seed(0)
    layer = FastWeightAttention(
        32, 2, feature_map=EluPlusOne(), update_rule=rule, normalisation=SumNormalisation(), **parts
    ).eval()
    ends = [0, 40, 41, 130, 200]
    x = torch.randn(1, ends[-1], 32, requires_grad=True)
    y, after = layer(x, boundaries=boundaries_of(ends, ends[-1]))
    alone = [layer(x[:, start:end]) for start, end in pairwise(ends)]
    expected = torch.cat([outputs for outputs, _ in alone], dim=1)
    assert relative_error(y.detach(), expected.detach()) <= 2e-6
    assert relative_error(after.weights.detach(), alone[-1][1].weights.detach()) <= 2e-6
    inputs = {"x": x, **dict(layer.named_parameters())}
    direction = torch.randn_like(y)
    found, wanted = (torch.autograd.grad(z, list(inputs.values()), direction) for z in (y, expected))
    for name, ours, theirs in zip(inputs, found, wanted, strict=True):
        assert relative_error(ours, theirs) <= 2e-6, name
