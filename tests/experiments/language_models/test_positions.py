"""The table of positions: its runs on either text, and what stands in it."""

import math
from pathlib import Path

import pytest

from budget_records import record, run_of
from fastweights.experiments.language_models import positions
from fastweights.experiments.options import ReproduceOptions
from shown_figures import tables_of


def test_every_model_is_run_with_every_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "on_text", lambda presets, options: [run_of(preset) for preset in presets])
    runs = positions.runs(ReproduceOptions())
    assert [run.preset for run in runs] == [f"cpu-{name}" for name in positions.MODELS.values()]
    assert {run.training.seed for run in positions.runs(ReproduceOptions(seeds=(1, 2)))} == {1, 2}
    assert positions.coverage(dict.fromkeys(runs, record(1.0))).wanted == 2 * len(positions.MODELS)


def test_the_text_decides_about_the_size(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(positions, "on_text", lambda presets, options: [run_of(preset) for preset in presets])
    monkeypatch.setattr(positions, "cpu_size", lambda options: "cpu-long")
    assert {run.preset.startswith("cpu-long-") for run in positions.runs(ReproduceOptions(data=str(text)))} == {True}
    for options in (ReproduceOptions(quick=True), ReproduceOptions(scale="paper")):
        with pytest.raises(ValueError, match="positions are compared at the sizes for CPUs"):
            positions.runs(options)


def test_the_start_and_the_end_of_segments_stand_beside_perplexities() -> None:
    segment = {"edges": [0, 4, 64, 256], "losses": [math.log(300.0), math.log(200.0), math.log(100.0)]}
    records = {
        run_of("cpu-transformer"): record(231.0, segment=segment),
        run_of("cpu-transformer", 1): record(233.0),
        run_of("cpu-long-transformer-relative"): record(70.0),
        run_of("cpu-long-dpfp-delta"): record(1.0),
    }
    (table,) = tables_of(positions, records)
    assert table.columns[2:] == (
        "test, WikiText-2", "words 1-4 / 129-256, WikiText-2", "test, Europarl", "words 1-4 / 129-256, Europarl",
    )  # fmt: skip
    assert table.rows == (
        ("Transformer", "sinusoids", "232.0 ± 1.4", "300.0 / 100.0", "–", "–"),
        ("Transformer", "relative", "–", "–", "70.0", "–"),
    )
    assert tables_of(positions, {})[0].rows == ()
