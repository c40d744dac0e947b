"""Accuracies gathered from records: by key, over seeds."""

import pytest

from fastweights.experiments.recall.presets import preset
from fastweights.experiments.scores import AccuracyScores, found, percent
from marked_records import record


def test_runs_of_one_key_are_gathered_over_seeds() -> None:
    runs = {seed: preset("parity", "sum", seed=seed) for seed in (1, 2, 3)}
    records = {runs[seed]: record(runs[seed], {"x1": {"all": seed / 10, "4": 0.5}}) for seed in (1, 3)}
    scores = found(records, [(("parity", "sum"), run) for run in runs.values()])
    assert scores.of(("parity", "sum"), "x1") == (0.1, 0.3)
    assert scores.mean(("parity", "sum"), "x1") == pytest.approx(0.2)
    assert scores.of(("parity", "sum"), "x1", "4") == (0.5, 0.5)
    assert scores.of(("parity", "sum"), "x6") == scores.of(("parity", "delta"), "x1") == ()
    assert scores.mean(("parity", "delta"), "x1") is None
    assert scores
    assert not AccuracyScores({})


def test_shares_are_shown_in_per_cent() -> None:
    assert percent(()) == "–"
    assert percent((0.987,)) == "98.7"
    assert percent((0.5, 0.7)) == "60.0 ± 14.1"
