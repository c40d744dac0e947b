"""The runs with documents, and what the tables say about records with given losses and scores."""

from pathlib import Path

import pytest

from document_records import records
from fastweights.experiments.documents import documents
from fastweights.experiments.documents.documents import PLACES
from fastweights.experiments.documents.presets import preset
from fastweights.experiments.options import ReproduceOptions
from shown_figures import tables_of
from tiny_translation import write_pairs


def test_every_memory_is_carried_and_emptied(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    data = str(write_pairs(tmp_path))
    runs = documents.runs(ReproduceOptions(data=data))
    assert len(set(runs)) == len(runs) == 2
    assert [run.task.carried for run in runs] == [True, False]  # type: ignore[attr-defined]
    assert len({run.task.pairs for run in runs} - {""}) == 1  # type: ignore[attr-defined]
    assert len(set(documents.runs(ReproduceOptions(data=data, seeds=(1, 2))))) == 4
    assert PLACES[-1][1] == runs[0].task.document  # type: ignore[attr-defined]
    with pytest.raises(ValueError, match="--quick is for figures"):
        documents.runs(ReproduceOptions(quick=True))
    with pytest.raises(ValueError, match="data: documents need a folder"):
        documents.runs(ReproduceOptions())


def test_names_that_are_not_there_are_told() -> None:
    with pytest.raises(ValueError, match="model: unknown name 'delt'"):
        preset("documents", "delt")
    with pytest.raises(ValueError, match="rule: the models of documents name their rule"):
        preset("documents", "delta", "sum")


def test_the_tables_compare_with_a_memory_that_is_never_carried() -> None:
    scores, places = tables_of(documents, records((1.9, 0), (2.0, 6)))
    carried, read_alone, alone = scores.rows
    assert carried[:5] == ("delta rule", "carried on", "carried on", "1.900", "1.900")
    assert carried[-1].startswith("-5.0 %; +")
    assert carried[-1].endswith(": better")
    assert read_alone[1:4] == ("carried on", "sentence by sentence", "3.000")
    assert read_alone[-1].startswith("+50.0 %")
    assert alone[1:3] == ("sentence by sentence", "sentence by sentence")
    assert alone[-2:] == ("–", "–")
    assert places.rows[1] == ("delta rule", "test", *["1.900 against 2.000 (-5.0 %)"] * 4)
    worse, undecided = (tables_of(documents, records((2.0, wrong), (2.0, 3)))[0].rows[0] for wrong in (9, 3))
    assert worse[-1].endswith(": worse")
    assert undecided[-1] == "+0.0 %; +0.0 BLEU, p = 1.000: undecided"


def test_seeds_are_counted() -> None:
    found = {**records((1.9, 0), (2.0, 6)), **records((1.7, 0), (2.0, 6), seed=2)}
    assert tables_of(documents, found)[0].rows[0][3] == "1.800 ± 0.141"
    assert documents.coverage(found)[1] == 6, "two that are asked for, and four others"
    assert documents.coverage({})[:2] == ([], 2)
    assert tables_of(documents, {})[0].markdown() == "(no runs yet)"


def test_only_runs_of_one_corpus_are_compared() -> None:
    few = {run: found for run, found in records((1.0, 0), (1.0, 0), pairs="other").items() if run.task.carried}  # type: ignore[attr-defined]
    found = {**few, **records((1.9, 0), (2.0, 6))}
    assert len(few) == 1
    assert tables_of(documents, found)[0].rows[0][3] == "1.900"
    assert len(documents.coverage(found).found) == 2


def test_places_that_no_text_reaches_are_left_open() -> None:
    found = records((1.9, 0), (2.0, 6))
    for record in found.values():
        for reading_of_split in record.result["readings"].values():
            for one in reading_of_split.values():
                one["sums"][16:], one["tokens"][16:] = [0.0] * 16, [0] * 16
    assert tables_of(documents, found)[1].rows[0][-2:] == ("1.900 against 2.000 (-5.0 %)", "–")
