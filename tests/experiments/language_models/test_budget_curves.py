"""Learning curves: where they cross for the last time, what is gained at the end, each text in its own panel."""

import pytest

from budget_records import record, run_of
from fastweights.experiments.language_models.budget_curves import (
    crossing,
    crossings,
    curves_figure,
    gain_at_the_end,
    leads,
)


def test_the_last_crossing_counts() -> None:
    first = {1: 5.0, 2: 4.0, 3: 3.9, 4: 3.0}
    assert crossing(first, {1: 4.5, 2: 4.5, 3: 3.5, 4: 3.1}) == 3
    assert crossing(first, {1: 5.5, 2: 4.5, 3: 4.5, 4: 3.1}) is None
    assert crossing({1: 5.0, 7: 2.0}, {1: 4.0, 4: 1.0}) is None


def test_the_gain_of_the_last_fifth() -> None:
    assert gain_at_the_end({10: 5.0, 80: 4.0, 90: 3.9, 100: 3.7}) == pytest.approx(0.3)
    assert gain_at_the_end({90: 3.9, 100: 3.7}) is None


def test_a_lead_is_that_of_the_last_validation_before() -> None:
    winner, other = {10: 5.0, 40: 4.0, 100: 3.0}, {10: 4.5, 40: 4.2, 60: 1.0, 100: 3.5}
    assert leads(winner, other) == pytest.approx([-0.5, 0.2, 0.5])
    assert leads({90: 3.0, 100: 2.0}, {90: 3.1, 100: 2.4})[:2] == [None, None]


def test_the_table_says_who_is_ahead_since_when() -> None:
    records = {
        run_of("cpu-long-transformer"): record(80.0, losses=(6.0, 5.0, 4.5, 4.2, 4.0)),
        run_of("cpu-long-linear-delta"): record(90.0, losses=(5.8, 4.9, 4.6, 4.4, 4.3)),
        run_of("cpu-transformer"): record(200.0, losses=(6.0, 5.9, 5.8, 5.7, 5.6)),
        run_of("cpu-linear-delta", seed=1): record(9.0, losses=(1.0, 1.0, 1.0, 1.0, 1.0)),
    }
    (row,) = crossings(records).rows
    assert row == (
        "Europarl", "transformer – linear-delta", "transformer", "-0.200 / -0.100 / 0.300", "after 819,200 words",
        "0.200", "0.100",
    )  # fmt: skip
    axes = curves_figure(records).figure.axes
    assert [panel.get_title(loc="left") for panel in axes] == ["WikiText-2", "Europarl"]
    assert [len(panel.lines) for panel in axes] == [1, 2]
