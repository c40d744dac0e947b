"""The sweep of learning rates: its runs, what counts as one of them, and the best rate of each model."""

import math
from pathlib import Path

import pytest

from budget_records import run_of
from fastweights.experiments.language_models import budget, rates
from fastweights.experiments.language_models.rates import MODELS, RATES, best_rates, found_losses, shortened
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import load
from fastweights.runs.record import Record
from fastweights.training.run import Run
from shown_figures import tables_of


def record(loss: float | None) -> Record:
    return Record({}, {"best_loss": loss, "seconds": 60.0}, {}, {})


def swept(name: str, rate: float) -> Run:
    return shortened(run_of(f"cpu-long-{name}"), rate)


def test_every_model_runs_with_every_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rates, "on_text", lambda presets, options: [run_of(preset) for preset in presets])
    runs = rates.runs(ReproduceOptions(data="x"))
    assert len(set(runs)) == len(runs) == len(MODELS) * len(RATES)
    assert {run.training.steps for run in runs} == {rates.STEPS}
    assert all(run.training.rates(rates.STEPS) < run.training.learning_rate / 100 for run in runs)
    with pytest.raises(ValueError, match="one size, with one seed and one length"):
        rates.runs(ReproduceOptions(data="x", seeds=(1,)))


def test_the_best_rate_is_known_once_all_were_run() -> None:
    records = {swept("transformer", rate): record(6.0 + abs(math.log(rate / 5e-4))) for rate in RATES}
    records |= {swept("linear-delta", RATES[0]): record(None), run_of("cpu-long-transformer"): record(1.0)}
    assert best_rates(found_losses(records)) == {"transformer": 5e-4}
    (table,) = tables_of(rates, records)
    assert table.rows[0][0] == "Transformer"
    assert table.rows[0][-1] == "0.0005"
    assert table.rows[1][1:] == ("infinite", "–", "–", "–", "–", "–")
    assert len(rates.coverage(records).found) == 6


def test_the_long_trainings_take_the_rate_that_the_sweep_found() -> None:
    found = best_rates(found_losses(load(Path(__file__).parents[3] / "results")))
    assert found == dict.fromkeys(MODELS, budget.COMMON_RATE)
