"""Decay gates: their equations in plain Python, and how they begin."""

import copy
import math
from typing import Any

import pytest
import torch
from torch.testing import assert_close

from fastweights.layers import GatedNorm, GateThenNorm, ShortConvolution
from fastweights.update_rules import (
    DecayedSumRule,
    DeltaProductRule,
    DeltaRule,
    GatedDeltaRule,
    GatedDeltaRule2,
    GatedLinearDecay,
    KimiDecay,
    KimiDeltaRule,
    LightningDecay,
    Mamba2Decay,
    NormalisedStep,
    RetNetDecay,
    SoftplusDecay,
)


def softplus(x: float) -> float:
    return math.log1p(math.exp(x))


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


LOGITS = torch.tensor([[[0.3, -1.0], [2.0, 0.0]]], dtype=torch.float64)  # one sequence, two heads, two steps
PER_HEAD = {
    "log_rate": torch.tensor([0.5, -0.7], dtype=torch.float64),
    "bias": torch.tensor([-1.0, 0.2], dtype=torch.float64),
}


def test_one_decay_per_head_is_the_equation() -> None:
    found = SoftplusDecay("alpha")(LOGITS, **PER_HEAD)
    assert found[0, 0, 0].item() == pytest.approx(math.exp(-math.exp(0.5) * softplus(0.3 - 1.0)), rel=1e-14)
    assert found[0, 1, 1].item() == pytest.approx(math.exp(-math.exp(-0.7) * softplus(0.2)), rel=1e-14)


def test_mamba2_writes_by_the_time_step() -> None:
    decay, write = Mamba2Decay().split(Mamba2Decay(shortest=0.5, longest=1.5)(LOGITS, **PER_HEAD))
    step = min(max(softplus(2.2), 0.5), 1.5)
    assert write[0, 1, 0].item() == pytest.approx(step, rel=1e-14)
    assert decay[0, 1, 0].item() == pytest.approx(math.exp(-math.exp(-0.7) * step), rel=1e-14)
    assert write[0, 0, 1].item() == 0.5


def test_one_decay_per_channel_is_the_equation() -> None:
    logits = torch.tensor([[[[0.3, -1.0, 4.0]]]], dtype=torch.float64)
    rate, bias = torch.tensor([0.5], dtype=torch.float64), torch.tensor([[-1.0, 0.2, 0.0]], dtype=torch.float64)
    found = KimiDecay()(logits, log_rate=rate, bias=bias)
    bounded = KimiDecay(log_bound=-5.0)(logits, log_rate=rate, bias=bias)
    linear = GatedLinearDecay()(logits, bias=bias)
    for i, x in enumerate([0.3 - 1.0, -1.0 + 0.2, 4.0]):
        assert found[0, 0, 0, i].item() == pytest.approx(math.exp(-math.exp(0.5) * softplus(x)), rel=1e-14)
        assert bounded[0, 0, 0, i].item() == pytest.approx(math.exp(-5 * sigmoid(math.exp(0.5) * x)), rel=1e-14)
        assert linear[0, 0, 0, i].item() == pytest.approx(sigmoid(x) ** (1 / 16), rel=1e-14)


def test_fixed_decays_are_the_published_ones() -> None:
    nothing = torch.zeros(2, 4, 3, 0, dtype=torch.float64)
    retnet, lightning = RetNetDecay()(nothing), LightningDecay(depth=0.25)(nothing)
    assert retnet.shape == lightning.shape == (2, 4, 3)
    for head in range(4):
        assert retnet[1, head, 2].item() == 1 - 2 ** (-5 - head)
        assert lightning[1, head, 2].item() == pytest.approx(math.exp(-(2 ** (-8 * (head + 1) / 4)) * 0.75), rel=1e-14)


@pytest.mark.parametrize(
    ("gate", "lowest", "highest"),
    [(SoftplusDecay("a"), 0.01, 16), (Mamba2Decay(), 1, 16), (KimiDecay(), 1, 16)],
    ids=str,
)
def test_rates_are_uniform_and_time_steps_log_uniform_at_first(
    gate: SoftplusDecay, lowest: float, highest: float
) -> None:
    components = 1 if gate.per == "head" else 7
    initial = gate.parameters(3000, components)
    assert initial["log_rate"].shape == (3000,)
    assert initial["bias"].shape == ((3000,) if gate.per == "head" else (3000, 7))
    rates, steps = initial["log_rate"].exp(), torch.nn.functional.softplus(initial["bias"])
    assert lowest * 0.999 <= rates.min() < lowest + 0.1
    assert highest - 0.1 < rates.max() <= highest * 1.001
    assert abs(rates.mean().item() - (lowest + highest) / 2) < 0.3
    assert 0.00099 < steps.min() < 0.0011
    assert 0.095 < steps.max() <= 0.1001
    assert abs(steps.log().mean().item() - math.log(0.01)) < 0.1


def test_half_precision_logits_give_decays_in_float32() -> None:
    for gate, parameters in ((SoftplusDecay("a"), PER_HEAD), (Mamba2Decay(), PER_HEAD)):
        assert gate(LOGITS.bfloat16(), **{n: x.float() for n, x in parameters.items()}).dtype == torch.float32
    assert RetNetDecay()(torch.zeros(1, 2, 3, 0, dtype=torch.bfloat16)).dtype == torch.float32


@pytest.mark.parametrize("rule", [DeltaRule, GatedDeltaRule, KimiDeltaRule])
def test_negative_doubles_the_write_strength(rule: type[DeltaRule]) -> None:
    logits = torch.tensor([-3.0, 0.0, 5.0])
    small, large = rule().gates[0], rule(negative=True).gates[0]
    assert_close(small(logits), logits.sigmoid())
    assert_close(large(logits), 2 * logits.sigmoid())


def test_gates_of_the_other_rules() -> None:
    erase, write, alpha = GatedDeltaRule2(negative=True).gates
    assert (erase.per, write.per, alpha.per) == ("key", "value", "key")
    assert erase(torch.zeros(1)).item() == 1.0
    assert write(torch.zeros(1)).item() == 0.5
    beta, alpha = DeltaProductRule(3, gated=True).gates
    assert beta.each_write
    assert not alpha.each_write
    assert beta(torch.zeros(1)).item() == 1.0
    assert [gate.label for gate in DecayedSumRule(RetNetDecay()).gates] == ["decay"]


def test_a_decay_acts_before_the_first_of_several_writes() -> None:
    gates = {"alpha": torch.tensor([[[0.5, 0.25]]]), "beta": torch.ones(1, 1, 6)}
    spread = DeltaProductRule(3, gated=True).gates_per_write(gates)
    assert spread["alpha"].tolist() == [[[0.5, 1.0, 1.0, 0.25, 1.0, 1.0]]]
    assert DeltaProductRule(3).gates_per_write({"beta": gates["beta"]})["beta"] is gates["beta"]


@pytest.mark.parametrize(
    ("choice", "changes", "message"),
    [
        (DeltaProductRule(), {"num_writes": 0}, "num_writes must be a whole number, at least 1, got 0"),
        (DeltaProductRule(), {"num_writes": 1.5}, "num_writes must be a whole number, at least 1, got 1.5"),
        (KimiDecay(), {"log_bound": 0.0}, "log_bound: expected a number below 0, or None, got 0.0"),
        (KimiDecay(), {"rank": 0}, "rank: expected at least 1, 'head' or None, got 0"),
        (LightningDecay(), {"depth": 1.5}, "depth: expected a number from 0 to 1, got 1.5"),
        (SoftplusDecay(), {"per": "value"}, "per: expected 'head', or 'key' for each of its components, got 'value'"),
        (SoftplusDecay(), {"lowest_rate": -1.0}, "rates: expected 0 < lowest ≤ highest, got -1.0 and 16.0"),
        (Mamba2Decay(), {"per": "key"}, "per: Mamba-2 has one time step for a head, got 'key'"),
        (Mamba2Decay(), {"shortest": 1.0, "longest": 0.5}, "expected 0 ≤ shortest ≤ longest, got 1.0 and 0.5"),
        (GatedLinearDecay(), {"temperature": 0.0}, "temperature: expected a number above 0, got 0.0"),
        (DecayedSumRule(), {"decay": "retnet"}, "decay: expected a gate such as .* got 'retnet'"),
        (NormalisedStep(), {"epsilon": -1.0}, "epsilon: expected a number from 0 on, got -1.0"),
        (GatedNorm(), {"activation": "relu"}, "activation: expected 'silu' or 'sigmoid', got 'relu'"),
        (GatedNorm(), {"rank": 0}, "rank: expected at least 1, 'head' or None, got 0"),
        (GatedNorm(), {"epsilon": -1.0}, "epsilon: expected a number above 0, got -1.0"),
        (GateThenNorm(), {"epsilon": 0.0}, "epsilon: expected a number above 0, got 0.0"),
        (ShortConvolution(), {"width": 2.5}, "width must be a whole number, at least 1, got 2.5"),
    ],
    ids=lambda x: x if isinstance(x, str) else type(x).__name__,
)
def test_what_cannot_be_is_refused(choice: Any, changes: dict[str, Any], message: str) -> None:
    """Fields are set behind the back of the tests' type checker, which sees most mistakes before the class does."""
    changed = copy.copy(choice)
    for name, value in changes.items():
        object.__setattr__(changed, name, value)
    with pytest.raises(ValueError, match=message):
        changed.__post_init__()


def test_a_decay_of_gated_linear_attention_is_exact_in_float64() -> None:
    logits = torch.tensor([-40.0, -20.5, 0.0, 20.5, 40.0], dtype=torch.float64).reshape(1, 1, 5, 1)
    found = GatedLinearDecay()(logits, bias=torch.zeros(1, 1, dtype=torch.float64)).flatten()
    expected = [math.exp(-math.log1p(math.exp(-x)) / 16) for x in (-40.0, -20.5, 0.0, 20.5, 40.0)]
    assert max(abs(x / y - 1) for x, y in zip(found.tolist(), expected, strict=True)) < 1e-15


def test_a_number_is_not_taken_for_the_label() -> None:
    """LightningDecay(0.5) means its depth; the type checker of the tests would see it before the class does."""
    for gate in (LightningDecay(), KimiDecay(), SoftplusDecay("alpha")):
        object.__setattr__(gate, "label", 0.5)
        with pytest.raises(
            ValueError, match=f"{type(gate).__name__}: the first argument is the label, a text, got 0.5"
        ):
            gate.__post_init__()
