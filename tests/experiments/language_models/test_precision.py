"""The table of precisions: which runs it wants, which it shows, and by how much they differ."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from fastweights.data.text.corpus import PUBLIC
from fastweights.experiments.language_models import precision
from fastweights.experiments.language_models.presets import PRESETS, for_text
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Records
from fastweights.runs.record import Record
from fastweights.training.run import Run
from shown_figures import tables_of


def described(name: str) -> Run:
    return for_text(PRESETS[f"cpu-{name}"], PUBLIC["wikitext-2"].vocabulary_size, "digest")


def record(valid: float, test: float) -> Record:
    scores = {split: {"loss": math.log(x)} for split, x in (("valid", valid), ("test", test))}
    return Record({}, {"seconds": 1.0, **scores}, {}, {})


def test_every_model_is_run_in_both_precisions_and_nothing_else_differs(text: Path) -> None:
    runs = precision.runs(ReproduceOptions(data=str(text)))
    assert [run.training.precision for run in runs] == ["float32", "bfloat16"] * len(precision.MODELS)
    for exact, low in zip(runs[::2], runs[1::2], strict=True):
        assert precision.in_precision(low, "float32") == exact
        assert exact.preset.removeprefix("cpu-") in precision.MODELS
    for options in (ReproduceOptions(quick=True), ReproduceOptions(seeds=(1,)), ReproduceOptions(scale="paper")):
        with pytest.raises(ValueError, match="precisions are compared at the size for CPUs"):
            precision.runs(options)


def test_a_model_is_shown_once_it_was_trained_in_both() -> None:
    exact = described("dpfp-delta")
    low = precision.in_precision(exact, "bfloat16")
    half = precision.in_precision(described("transformer"), "bfloat16")
    other = replace(low, training=replace(low.training, seed=7))
    records: Records = {exact: record(200.0, 100.0), low: record(201.0, 99.0), half: record(9.0, 9.0)}
    (table,) = tables_of(precision, {**records, other: record(1.0, 1.0)})
    assert table.rows == (("DPFP-1, delta rule", "200.0", "201.0", "100.0", "99.0", "+0.5 %", "-1.0 %"),)
    found, wanted, *_ = precision.coverage({**records, other: record(1.0, 1.0)})
    assert (len(found), wanted) == (3, 8)
    assert tables_of(precision, {})[0].markdown() == "(no runs yet)"
