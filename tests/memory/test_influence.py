"""Who erased and read whom: the weights rebuild what the memory retrieves, erases and gives."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fastweights import (
    DeltaProductRule,
    DeltaRule,
    EluPlusOne,
    FastWeightAttention,
    FastWeightMemoryRule,
    GatedDeltaRule,
    GatedDeltaRule2,
    KimiDeltaRule,
    NoNormalisation,
    NormalisedStep,
    SumRule,
    UpdateRule,
)
from fastweights.memory import Observation, observe
from fastweights.memory.influence import influences
from fastweights.memory.traced_writes import writes_by_scan
from fastweights.update_rules import LinearRule


def observation(rule: UpdateRule, attention: bool = False, boundaries: Tensor | None = None) -> Observation:
    torch.manual_seed(0)
    layer = FastWeightAttention(
        8,
        2,
        update_rule=rule,
        feature_map=EluPlusOne(),
        attention_normalisation=attention,
        **({"normalisation": NoNormalisation()} if attention else {}),
    ).double()
    shown: list[Observation] = []
    with observe(layer, lambda name: shown.append):
        layer(torch.randn(2, 9, 8, dtype=torch.float64), boundaries=boundaries)
    return shown[0]


@pytest.mark.parametrize(
    "rule",
    [
        DeltaRule(),
        NormalisedStep(),
        GatedDeltaRule(),
        KimiDeltaRule(),
        GatedDeltaRule2(),
        DeltaProductRule(2),
        SumRule(),
    ],
    ids=str,
)
def test_reads_and_erasures_are_sums_over_earlier_writes(rule: LinearRule) -> None:
    given = observation(rule)
    found = influences(given)
    assert found is not None
    assert given.reads is not None
    writes = given.writes.of_single_writes(rule)
    done = writes_by_scan(rule, writes, given.before, "recurrent", [])
    last = slice(rule.writes_per_step - 1, None, rule.writes_per_step)
    assert_close((found.read @ done.change)[:, :, last], given.reads, rtol=1e-10, atol=1e-12)
    erased = torch.linalg.vector_norm(found.erased @ done.change, dim=-1) * writes.keys.norm(dim=-1)
    assert_close(erased, done.removed, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("rule", [SumRule(), DeltaRule()], ids=str)
def test_reads_that_are_divided_by_z(rule: LinearRule) -> None:
    given = observation(rule, attention=True)
    found = influences(given)
    assert found is not None
    assert given.reads is not None
    run = rule.with_attention_normalisation()
    assert isinstance(run, LinearRule)
    done = writes_by_scan(run, given.writes, given.before, "recurrent", [])
    assert_close(found.read @ done.change, given.reads, rtol=1e-10, atol=1e-12)
    if isinstance(rule, SumRule):
        assert_close(found.read.sum(dim=-1), torch.ones_like(given.reads[..., 0]))


def test_nothing_reaches_over_a_boundary() -> None:
    boundaries = torch.zeros(2, 9, dtype=torch.bool)
    boundaries[:, 4] = True
    found = influences(observation(DeltaRule(), boundaries=boundaries))
    assert found is not None
    assert not found.erased[:, :, 4:, :4].any()
    assert not found.read[:, :, 4:, :4].any()
    assert found.erased[:, :, 3, :3].all()


def test_a_rule_that_is_not_linear_has_no_such_view() -> None:
    assert influences(observation(FastWeightMemoryRule())) is None
