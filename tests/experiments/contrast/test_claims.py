"""Verdicts about contrast follow from the recorded writes."""

from typing import Any

from fastweights.experiments.contrast.claims import (
    CLAIMS,
    REVIEW,
    judge_attention_does_not_balance,
    judge_beyond_training,
    judge_both_criteria,
    judge_sum_balances,
    judge_sum_lands,
)
from fastweights.experiments.contrast.contrast import drawing, length_table, writes_table
from fastweights.experiments.contrast.outcomes import TracedMemories
from fastweights.experiments.growth.curves import Curves

QUANTITIES = ("strength", "key_square", "balance", "landing", "retrieved", "contrast", "error_after")


def result(new: dict[str, float], repeated: dict[str, float], losses: dict[str, float]) -> dict[str, Any]:
    def writes(given: dict[str, float]) -> dict[str, Any]:
        return {
            name: {"mean": given.get(name, 0.5), "quartiles": [0.0, given.get(name, 0.5), 1.0]} for name in QUANTITIES
        }

    return {
        "writes": {"new": writes(new), "repeated": writes(repeated)},
        "by_step": {"step": [1, 2, 4], "landing": [1.0, 0.5, 0.25], "balance": [1.0, None, 0.5]},
        "by_length": losses,
        "crosstalk": 0.01,
        "steps": 700,
    }


GOOD = {"balance": 1.0, "landing": 1.0}
SHORT, LONG = {"20": 0.001, "40": 0.001}, {"20": 0.1, "40": 0.4}


def outcomes(attention: tuple[float, float], trained: float, random: float) -> TracedMemories:
    def stream(landing: float) -> dict[str, list[float]]:
        return {"step": [100.0, 316.0], "landing": [landing] * 2, "balance": [1.0] * 2}

    return TracedMemories(
        {
            "delta-attention": [result({"balance": attention[0]}, {"balance": attention[1]}, LONG)],
            "delta-sum": [result({**GOOD, "landing": trained}, {**GOOD, "landing": trained}, SHORT)] * 3,
            "delta-l2": [result(GOOD, GOOD, SHORT)],
            "nlms-sum": [result(GOOD, GOOD, SHORT)],
        },
        Curves({("delta-sum", "float32"): stream(random), ("nlms-sum", "float32"): stream(1.0)}),
    )


def test_attention_normalisation_is_judged_under_new_and_repeated_keys() -> None:
    assert judge_attention_does_not_balance(outcomes((33.0, 0.2), 1, 1)).verdict == "holds"
    assert judge_attention_does_not_balance(outcomes((1.2, 0.2), 1, 1)).verdict == "holds in part"
    assert judge_attention_does_not_balance(outcomes((1.2, 0.9), 1, 1)).verdict == "does not hold"


def test_landing_is_judged_trained_and_random() -> None:
    assert judge_sum_lands(outcomes((1, 1), 0.998, 0.95)).verdict == "holds"
    assert judge_sum_lands(outcomes((1, 1), 0.998, 0.2)).verdict == "holds in part"
    assert judge_sum_lands(outcomes((1, 1), 0.1, 0.2)).verdict == "does not hold"


def test_the_other_claims() -> None:
    found = outcomes((33.0, 0.2), 0.998, 0.2)
    assert judge_sum_balances(found).verdict == "holds"
    assert judge_both_criteria(found).verdict == "holds"
    assert judge_beyond_training(found).verdict == "holds"


def test_nothing_is_said_without_runs() -> None:
    assert {claim.judge(TracedMemories({})).verdict for claim in (*CLAIMS, *REVIEW)} == {"not run yet"}


def test_tables_and_figure() -> None:
    found = outcomes((33.0, 0.2), 0.998, 0.2)
    rows = {row[0]: row for row in writes_table(found).rows}
    assert rows["delta, attention"][6] == "33 / 0.2"
    assert rows["delta, sum (the paper)"][2] == "700 700 700"
    assert rows["delta, sum (the paper)"][-1] == "0.2, 1"
    assert length_table(found).rows[0][1:] == ("0.1", "0.4")
    assert found.by_step("delta-sum", "landing") == [(1, 1.0), (2, 0.5), (4, 0.25)]
    landing, balance, loss, _ = drawing(found).figure.axes
    assert [len(axes.get_lines()) for axes in (landing, balance, loss)] == [5, 5, 5]
