"""The table of normalisations: every model with the seeds asked for, their spread, and what is no run of it."""

import math
from dataclasses import replace
from pathlib import Path

import pytest

from fastweights.data.text.corpus import PUBLIC
from fastweights.experiments.language_models import normalisations
from fastweights.experiments.language_models.presets import PRESETS, for_text
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Records
from fastweights.runs.record import Record
from fastweights.training.run import Run
from shown_figures import tables_of


def described(name: str, seed: int = 1) -> Run:
    run = for_text(PRESETS[f"cpu-{name}"], PUBLIC["wikitext-2"].vocabulary_size, "digest")
    return replace(run, training=replace(run.training, seed=seed))


def record(valid: float, test: float) -> Record:
    scores = {split: {"loss": math.log(x)} for split, x in (("valid", valid), ("test", test))}
    return Record({}, {"seconds": 1.0, **scores}, {}, {})


def test_every_model_is_run_once_and_those_that_decide_with_every_seed_that_is_asked_for(text: Path) -> None:
    runs = normalisations.runs(ReproduceOptions(data=str(text)))
    assert len(set(runs)) == len(runs) == 2 * 4 * 2 + 3
    assert {run.training.seed for run in runs} == {1111}
    more = normalisations.runs(ReproduceOptions(data=str(text), seeds=(5, 6)))
    assert [run.training.seed for run in more] == [5] * 10 + [6] * 10
    assert [run.preset.removeprefix("cpu-") for run in more] == 2 * [*normalisations.DECIDING]
    assert "dpfp-sum-nopos" not in [run.preset.removeprefix("cpu-") for run in runs]
    with pytest.raises(ValueError, match="--quick is for figures"):
        normalisations.runs(ReproduceOptions(data=str(text), quick=True))
    with pytest.raises(ValueError, match="scale: normalisations are compared at the size for CPUs"):
        normalisations.runs(ReproduceOptions(data=str(text), scale="paper"))


def test_the_table_shows_means_spread_and_the_price_of_carrying() -> None:
    records: Records = {
        described("linear-delta-centred-nopos", 1): record(201.0, 184.0),
        described("linear-delta-centred-nopos", 2): record(203.0, 186.0),
        described("linear-delta-centred-nopos-carried", 2): record(202.0, 223.2),
        described("linear-delta-nopos", 2): record(220.0, 200.0),
        # Another learning rate, and a model of another table: neither is counted.
        replace(
            (other := described("linear-delta-nopos")), training=replace(other.training, learning_rate=0.5)
        ): record(9.0, 9.0),
        described("linear-delta"): record(9.0, 9.0),
        described("linear-sum-nopos", 2): record(270.0, 250.0),
    }
    (table,) = tables_of(normalisations, records)
    rows = {row[:2]: row[2:] for row in table.rows}
    # Seed 2 alone has the paper's form, and seed 2 alone was carried.
    centred = ("202.0 ± 1.4", "185.0 ± 1.4", "202.0", "223.2", "-7.0 %", "–", "+20.0 %", "2 / 1")
    assert rows.pop(("ELU+1", "centred L2")) == centred
    paper = ("220.0", "200.0", "–", "–", "–", "–", "–", "1 / 0")
    assert rows.pop(("ELU+1", "sum (the paper)")) == paper
    assert rows.pop(("ELU+1", "sum rule, attention")) == (
        "270.0", "250.0", "–", "–", "+25.0 %", "–", "–", "1 / 0"
    )  # fmt: skip
    assert {way for name, way in rows if name == "DPFP-1"} == {*normalisations.WAYS}
    assert set(rows.values()) == {("–",) * 7 + ("0 / 0",)}
    usual = {described("linear-delta-l2-nopos", 1111): record(201.0, 184.0)}
    found, wanted, *_ = normalisations.coverage(records | usual)
    assert (len(found), wanted) == (1 + 5, 19 + 5)
    assert tables_of(normalisations, {})[0].markdown() == "(no runs yet)"
