"""Every rule of the table: `step` is the equation of the paper, and `coefficients` say the same as `step`."""

import pytest
import torch
from torch import Tensor

from combinations import MORE, gates_of
from equations import dot, linear_recurrence, step_of
from fastweights.update_rules import (
    UPDATE_RULES,
    DeltaRule,
    FastWeightMemoryRule,
    LinearRule,
    NormalisedDeltaRule,
    ProgrammerRule,
    SumRule,
    UpdateRule,
)
from random_problems import relative_error

RULES = [cls() for cls in UPDATE_RULES.values()] + [rule for rule in MORE if isinstance(rule, UpdateRule)]
LINEAR = [rule for rule in RULES if isinstance(rule, LinearRule)]


def problem(steps: int = 6) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """W_0, keys, values, strengths and z before each step; the first key overlaps with nothing."""
    keys = torch.rand(2, 3, steps, 4, dtype=torch.float64)
    values = torch.randn(2, 3, steps, 5, dtype=torch.float64)
    strengths = torch.rand(2, 3, steps, dtype=torch.float64)
    return torch.randn(2, 3, 5, 4, dtype=torch.float64), keys, values, strengths, keys.cumsum(2) - keys


def per_write(rule: UpdateRule, strengths: Tensor, keys: Tensor, values: Tensor) -> dict[str, Tensor]:
    """Gates as `step` and `coefficients` take them; here every write is one of its own."""
    gates = gates_of(rule, strengths, keys, values)
    whole = {gate.label for gate in rule.gates if not gate.each_write}
    repeated = {name: gate.repeat_interleave(rule.writes_per_step, 2) for name, gate in gates.items() if name in whole}
    return gates | repeated


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_step_is_the_equation(rule: UpdateRule) -> None:
    actual = expected = (problems := problem())[0]
    _, keys, values, strengths, before = problems
    for t in range(keys.shape[2]):
        gates = {name: gate[:, :, t] for name, gate in per_write(rule, strengths, keys, values).items()}
        now = (keys[:, :, t], values[:, :, t], gates, before[:, :, t])
        actual, expected = rule.step(actual, *now), step_of(rule)(expected, *now)
        assert relative_error(actual, expected) <= 1e-14


@pytest.mark.parametrize("rule", LINEAR, ids=str)
def test_the_coefficients_say_what_the_step_says(rule: LinearRule) -> None:
    weights, keys, values, strengths, before = problem()
    gates = per_write(rule, strengths, keys, values)
    erase, write, *others = rule.coefficients(keys, gates, dot(before, keys))
    written, ones = (values, write) if write.dim() == 3 else (write * values, torch.ones_like(erase))
    _, expected = linear_recurrence(keys, keys, written, erase, ones, weights, *others)
    for t in range(keys.shape[2]):
        now = {name: gate[:, :, t] for name, gate in gates.items()}
        weights = rule.step(weights, keys[:, :, t], values[:, :, t], now, before[:, :, t])
    assert relative_error(weights, expected) <= 1e-13


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_a_step_is_differentiable(rule: UpdateRule) -> None:
    weights, keys, values, strengths, before = problem(2)
    gates = {name: gate[:, :, 1] for name, gate in per_write(rule, strengths, keys, values).items()}
    inputs = [x[:1, :1].requires_grad_() for x in (weights, keys[:, :, 1], values[:, :, 1], *gates.values())]
    assert torch.autograd.gradcheck(
        lambda w, k, v, *g: rule.step(w, k, v, dict(zip(gates, g, strict=True)), before[:1, :1, 1]), inputs
    )


def vector(*entries: float) -> Tensor:
    return torch.tensor([[entries]], dtype=torch.float64)


def matrix(*rows: list[float]) -> Tensor:
    return torch.tensor([[rows]], dtype=torch.float64)


OLD = matrix([1.0, 2.0], [0.0, -1.0])

# W k = (2, -1) for k = (0, 1);  v = (4, 3);  β = ½.
WORKED = [
    (SumRule(), None, matrix([1.0, 6.0], [0.0, 2.0])),
    (DeltaRule(), None, matrix([1.0, 3.0], [0.0, 1.0])),
    # z·k = 4: the retrieved value is (½, -¼).
    (NormalisedDeltaRule(), vector(7.0, 4.0), matrix([1.0, 3.75], [0.0, 0.625])),
    # Nothing overlaps: nothing is retrieved, and β v is written in full.
    (NormalisedDeltaRule(), vector(7.0, 0.0), matrix([1.0, 4.0], [0.0, 0.5])),
    (FastWeightMemoryRule(), None, matrix([1.0, 3.0], [0.0, 1.0]) / 11**0.5),
    (ProgrammerRule("identity"), None, matrix([1.0, 6.0], [0.0, 2.0])),
    (ProgrammerRule("tanh"), None, matrix([1.0, 6.0], [0.0, 2.0]).tanh()),
]


@pytest.mark.parametrize(("rule", "normaliser", "expected"), WORKED)
def test_one_write_by_hand(rule: UpdateRule, normaliser: Tensor | None, expected: Tensor) -> None:
    half = {"beta": torch.tensor([[0.5]], dtype=torch.float64)}
    actual = rule.step(OLD, vector(0.0, 1.0), vector(4.0, 3.0), half, normaliser)
    assert relative_error(actual, expected) <= 1e-15


def test_the_clamp_leaves_small_weights_alone() -> None:
    small = OLD / 100
    no_strength = {"beta": torch.zeros(1, 1, dtype=torch.float64)}
    actual = FastWeightMemoryRule().step(small, vector(0.0, 1.0), vector(4.0, 3.0), no_strength)
    assert torch.equal(actual, small)


def test_a_read_under_layer_norm_has_mean_zero_and_variance_one() -> None:
    weights = 100 * torch.randn(1, 1, 6, 3, dtype=torch.float64)
    read = FastWeightMemoryRule().read(weights, torch.randn(1, 1, 4, 3, dtype=torch.float64))
    assert read.mean(-1).abs().max() <= 1e-12
    assert (read.var(-1, correction=0) - 1).abs().max() <= 1e-4


def test_attention_normalisation_changes_the_rules_that_retrieve_linearly() -> None:
    assert DeltaRule().with_attention_normalisation() == NormalisedDeltaRule()
    for rule in (SumRule(), NormalisedDeltaRule(), FastWeightMemoryRule(), ProgrammerRule()):
        assert rule.with_attention_normalisation() == rule
