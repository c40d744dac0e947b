"""Table 1: its runs, our scores in columns of their own beside the paper's, and which differences count."""

from dataclasses import replace
from pathlib import Path

import pytest

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.translation import table1
from fastweights.experiments.translation.presets import followed_preset
from fastweights.runs.record import Record
from shown_figures import tables_of
from translation_records import CORPUS, record, run_of


def test_every_model_runs_with_three_seeds(pairs: Path) -> None:
    runs = table1.runs(ReproduceOptions(data=str(pairs)))
    assert len(set(runs)) == len(runs) == 27
    assert {run.training.seed for run in runs} == {1, 2, 3}
    assert all(followed_preset(run) == run.preset for run in runs)
    assert {run.preset.split("-")[1] for run in runs} == {"cpu"}
    assert {run.training.seed for run in table1.runs(ReproduceOptions(data=str(pairs), seeds=(7,)))} == {7}


def test_long_sentences_have_their_own_presets(pairs: Path) -> None:
    runs = table1.runs(ReproduceOptions(data=str(pairs.rename(pairs.with_name("europarl-small")))))
    assert len(runs) == 9
    assert {run.preset.split("-")[1] for run in runs} == {"europarl"}


def test_what_the_table_needs_is_said() -> None:
    with pytest.raises(ValueError, match="data: Table 1 needs a folder with the pairs"):
        table1.runs(ReproduceOptions())
    with pytest.raises(ValueError, match="--quick is for figures"):
        table1.runs(ReproduceOptions(quick=True, data="x"))


def test_our_scores_stand_beside_the_papers() -> None:
    records = {run_of("standard", seed): record(wrong) for seed, wrong in ((1, 1), (2, 2))}
    table, _, _, comparisons, _ = tables_of(table1, records)
    assert table.columns[2:] == (
        "valid, paper, WMT14 en-de", "test, paper, WMT14 en-de", f"valid, ours, {CORPUS}", f"test, ours, {CORPUS}",
        f"brevity penalty, test, {CORPUS}",
    )  # fmt: skip
    assert "case:mixed" in table.caption
    by_model = {row[:2]: row[2:] for row in table.rows}
    assert by_model["DPFP-2", "4 d_key"] == ("26.2", "26.9", "–", "–", "–")
    standard = by_model["Standard", "–"]
    assert standard[:2] == ("26.6", "27.7")
    assert " ± " in standard[2]
    assert standard[4] == "1.000"
    assert comparisons.rows == ()


def test_comparisons_say_who_is_better() -> None:
    records = {run_of("dpfp2", 1): record(2), run_of("linear", 1): record(9), run_of("dpfp2-delta", 1): record(2)}
    comparisons = tables_of(table1, records)[3]
    verdicts = {row[1]: row[3] for row in comparisons.rows}
    assert verdicts == {"dpfp2 – linear": "dpfp2 is better", "dpfp2-delta – dpfp2": "undecided"}
    turned = {run_of("dpfp2", 1): record(9), run_of("linear", 1): record(2)}
    assert {row[3] for row in tables_of(table1, turned)[3].rows} == {"linear is better"}


def test_without_records_there_is_no_row() -> None:
    assert [table.rows for table in tables_of(table1, {})] == [()] * 5
    assert table1.coverage({}) == ([], 36, 0)
    assert len(table1.coverage({run_of("dpfp2", 1): record(3), run_of("dpfp2", 9): record(3)}).found) == 1


def test_what_runs_took_is_told_by_processor() -> None:
    def run_on(processor: str, training: float, translating: float) -> Record:
        found = record(1)
        result = {**found.result, "core_seconds": training, "translating": {"core_seconds": translating, "words": 9}}
        return replace(found, result=result, environment={"processor": processor})

    records = {
        run_of("linear", 1): run_on("quick", 60.0, 3.0),
        run_of("linear", 2): run_on("quick", 120.0, 6.0),
        run_of("linear", 3): run_on("slow", 240.0, 30.0),
        run_of("standard", 1): run_on("slow", 30.0, 45.0),
    }
    costs = tables_of(table1, records)[4]
    ends = ("training, core minutes", "translating, sentences/s")
    assert costs.columns[2:] == tuple(f"{end}, {CORPUS}, {where}" for where in ("quick", "slow") for end in ends)
    by_model = {row[0]: row[2:] for row in costs.rows}
    assert by_model["Linear"] == ("1.5", "20", "4.0", "3"), "three texts of 30 sentences a run"
    assert by_model["Standard"] == ("–", "–", "0.5", "2")
    assert tables_of(table1, {run_of("linear", 1): record(1)})[4].rows == ()


def test_corpora_are_judged_one_by_one() -> None:
    good, bad = record(2), record(9)
    records = {run_of("dpfp2", 1): good, run_of("linear", 1): bad}
    for model, found in (("dpfp2", bad), ("linear", good)):
        # Another seed makes another run: the name of a corpus is no part of one.
        run = run_of(model, 2)
        records[replace(run, task=replace(run.task, corpus="other"))] = found  # type: ignore[call-arg]
    records |= {run_of("standard", 3, "training.steps=8000", "model.dropout=0.2"): good}
    _, test, verdicts, *_ = tables_of(table1, records)
    others = CORPUS.replace("pairs", "other")
    assert test.columns == ("model", "d_dot", "paper, WMT14 en-de", f"ours, {CORPUS}", f"ours, {others}")
    assert verdicts.columns[1:] == ("its own numbers, WMT14 en-de", CORPUS, others)
    by_claim = {row[0]: row[1:] for row in verdicts.rows}
    assert by_claim["DPFP outperforms the Linear Transformer."] == ("holds", "holds", "does not hold")
    assert by_claim["The Performer gets better from d_dot = 64 to 512."] == ("holds", "not run yet", "not run yet")
