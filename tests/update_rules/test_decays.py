"""Decay gates: their equations in plain Python, and how they begin."""

import math

import pytest
import torch
from torch.testing import assert_close

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
    ("make", "message"),
    [
        (lambda: DeltaProductRule(0), "num_writes must be at least 1, got 0"),
        (lambda: KimiDecay(log_bound=0.0), "log_bound: expected a number below 0, or None, got 0.0"),
        (lambda: LightningDecay(depth=1.5), "depth: expected a number from 0 to 1, got 1.5"),
    ],
)
def test_what_cannot_be_is_refused(make: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make()  # type: ignore[operator]


def test_a_number_is_not_taken_for_the_label() -> None:
    """LightningDecay(0.5) means its depth; the type checker of the tests would see it before the class does."""
    for gate in (LightningDecay(), KimiDecay(), SoftplusDecay("alpha")):
        object.__setattr__(gate, "label", 0.5)
        with pytest.raises(
            ValueError, match=f"{type(gate).__name__}: the first argument is the label, a text, got 0.5"
        ):
            gate.__post_init__()
