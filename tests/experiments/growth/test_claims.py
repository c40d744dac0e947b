"""Verdicts about growth follow from the columns of the streams."""

import math

import pytest

from fastweights import CentredL2, EluPlusOne, GatedDeltaRule
from fastweights.experiments.growth.claims import (
    judge_always_grows,
    judge_blows_up,
    judge_drift,
    judge_instability,
)
from fastweights.experiments.growth.curves import Curves, slope
from fastweights.experiments.growth.growth import drawing, rounded_table, stream_table
from fastweights.experiments.growth.positions import Positions, label_of
from fastweights.models.attention import FastWeightAttentionConfig

STEPS = [100, 1000, 10_000, 100_000, 1_000_000]


def stream(power: float, reads: list[float], with_z: bool = True) -> dict[str, list[float]]:
    columns = {
        "step": [float(step) for step in STEPS],
        "landing": [1.0 / step for step in STEPS],
        "balance": [1.0] * 5,
        "error": [0.5] * 5,
        "weights": [step**0.5 for step in STEPS],
        "read": reads,
    }
    return columns | ({"normaliser": [step**power for step in STEPS], "overlap": [2.0] * 5} if with_z else {})


def both(power: float, reads: list[float], rounded: float) -> Curves:
    short = {name: column[:3] for name, column in stream(power, reads).items()}
    short["read"] = [*short["read"][:2], rounded]
    plain = stream(0.0, [1.0] * 5, with_z=False)
    return Curves(
        {
            ("delta-attention", "float32"): stream(power, reads),
            ("delta-attention", "bfloat16"): short,
            ("delta-sum", "float32"): plain,
            ("delta-sum", "bfloat16"): {name: column[:3] for name, column in plain.items()},
        }
    )


FALLING = [1.0, 0.3, 0.1, 0.03, 0.01]


def test_slopes() -> None:
    assert slope([(0.0, 1.0), (1.0, 3.0), (2.0, 5.0)]) == pytest.approx(2)
    assert math.isnan(slope([(1.0, 1.0)]))
    assert both(1.0, FALLING, 0.1).exponent("delta-attention", "landing") == pytest.approx(-1)


def test_always_grows() -> None:
    assert judge_always_grows(both(1.0, FALLING, 0.1)).verdict == "holds"
    assert judge_always_grows(both(0.0, FALLING, 0.1)).verdict == "does not hold"
    assert judge_always_grows(Curves({})).verdict == "not run yet"


def test_instability_needs_growing_reads_or_a_rounded_state() -> None:
    assert judge_instability(both(1.0, FALLING, 0.1)).verdict == "does not hold"
    assert judge_instability(both(1.0, FALLING, 0.4)).verdict == "holds in part"
    assert judge_instability(both(1.0, FALLING[::-1], 0.4)).verdict == "holds"
    assert judge_instability(both(1.0, [*FALLING[:4], math.nan], 0.1)).verdict == "holds in part"
    assert judge_instability(Curves({})).verdict == "not run yet"


def positions(memory: str, drift: float, carried: bool = False, encoded: bool = False) -> Positions:
    perplexities = (400.0, 500.0 * (1 + drift)), (400.0, 500.0)
    return Positions(f"cpu-{memory}", memory, memory, carried, (0, 300, 1000), *perplexities, encoded=encoded)


def test_blowing_up_is_growth_faster_than_linear() -> None:
    found = both(1.0, FALLING, 0.1)
    assert judge_blows_up(found).verdict == "does not hold"
    assert judge_blows_up(both(2.0, FALLING, 0.1)).verdict == "holds"
    worse = Curves(found.streams, (positions("delta-sum-attention", 0.2),))
    assert judge_blows_up(worse).verdict == "holds in part"
    assert judge_blows_up(worse).evidence.endswith("memory carried to word 1,000: +20.0%")
    without = positions("delta-sum", 5.0), positions("delta-sum", 4.0)
    both_kinds = Curves(found.streams, (*worse.language_models, *without))
    assert judge_blows_up(both_kinds).evidence.endswith("+20.0% (+400.0% to +500.0% without z)")


def test_drift_compares_the_papers_choice_with_models_that_have_a_z() -> None:
    assert judge_drift(Curves({})).verdict == "not run yet"
    found = Curves({}, (positions("delta-sum", 0.18), positions("sum-attention", 0.001)))
    assert judge_drift(found).verdict == "holds"
    assert judge_drift(Curves({}, (positions("delta-sum", 0.0), positions("sum-attention", 0.1)))).verdict != "holds"
    one_seed_does_not = (*found.language_models, positions("delta-sum", 0.04))
    assert judge_drift(Curves({}, one_seed_does_not)).verdict == "does not hold"
    assert "+4.0% to +18.0%" in judge_drift(Curves({}, one_seed_does_not)).evidence


@pytest.mark.parametrize("confounded", [{"encoded": True}, {"carried": True}])
def test_drift_is_judged_where_the_carried_memory_alone_is_new(confounded: dict[str, bool]) -> None:
    """Positions that were never trained, or a memory that was carried in training, decide nothing about it."""
    others = positions("delta-sum", 9.0, **confounded), positions("sum-attention", 8.0, **confounded)
    assert judge_drift(Curves({}, others)).verdict == "not run yet"
    with_streams = Curves(both(1.0, FALLING, 0.1).streams, others)
    assert judge_blows_up(with_streams).verdict == "does not hold"


def test_tables_and_figure() -> None:
    found = Curves(both(1.0, FALLING, 0.4).streams, (positions("delta-sum", 0.18),))
    (attention, paper) = stream_table(found).rows
    assert attention[0] == "delta, attention"
    assert attention[1] == "0.01 / 0.0001 / 1e-06"
    assert attention[-1] == "0.50, 0.00, -1.00"
    assert paper[-1].startswith("0.50, –")
    assert rounded_table(found).rows[0][2] == "0.1 → 0.4"
    assert [len(axes.get_lines()) for axes in drawing(found).figure.axes] == [3, 3, 2, 2]


def test_memories_of_language_models_are_named_in_words() -> None:
    gated = FastWeightAttentionConfig(EluPlusOne(), GatedDeltaRule(), CentredL2())
    assert label_of(gated, "gated-delta-rule-centred-l2") == "gated delta, centred L2, ELU+1"
    assert label_of(FastWeightAttentionConfig(), "delta-sum") == "delta, sum (the paper), DPFP-1"
