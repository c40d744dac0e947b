"""Longer inputs: joined pairs, their runs, and what the table says about them."""

from dataclasses import replace
from pathlib import Path

import pytest

from fastweights.data.translation import open_translation
from fastweights.data.translation_files import Languages
from fastweights.data.translation_tokeniser import JointBytePairs
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.translation import lengths
from fastweights.experiments.translation.lengths import JOINED, MODELS, joined
from fastweights.experiments.translation.presets import followed_preset
from fastweights.runs.record import Record
from shown_figures import tables_of
from translation_records import record, run_of


def test_joined_pairs_are_the_same_text(pairs: Path) -> None:
    corpus = open_translation(pairs, Languages("en", "de"), JointBytePairs(280))
    whole, three = corpus.valid, corpus.valid.joined(3)
    assert len(three) == -(-len(whole) // 3)
    for side, single in ((three.source, whole.source), (three.target, whole.target)):
        assert side[1].tolist() == [*single[3], *single[4], *single[5]]
        assert sum(side.lengths) == sum(single.lengths)
    lines, joined_lines = corpus.lines("val"), corpus.lines("val", 3)
    for side_lines, single_lines in zip(joined_lines, lines, strict=True):
        assert len(side_lines) == len(three)
        assert side_lines[1] == " ".join(single_lines[3:6])
    assert corpus.valid.joined(1) is corpus.valid


def test_every_model_has_every_length(pairs: Path) -> None:
    runs = lengths.runs(ReproduceOptions(data=str(pairs)))
    assert len(set(runs)) == len(runs) == len(MODELS) * len(JOINED)
    assert all(followed_preset(run) is None for run in runs), "none of them is a run of Table 1"
    with pytest.raises(ValueError, match="longer inputs need a folder with the pairs"):
        lengths.runs(ReproduceOptions())
    with pytest.raises(ValueError, match="one size, one seed and one length"):
        lengths.runs(ReproduceOptions(data=str(pairs), quick=True))


def measured(wrong: int, loss: float) -> Record:
    found = record(wrong)
    result = found.result | {"core_seconds": 500.0, "steps": 1000}
    result["translating"] = {"core_seconds": 3.0, "words": 1000}
    return replace(found, result=result, curve={"step": [10.0, 20.0], "valid_loss": [None, loss]})


def test_the_table_shows_scores_and_costs() -> None:
    records = {
        joined(run_of("standard", 1), 16): measured(1, 2.0),
        joined(run_of("linear", 1), 16): measured(5, 2.5),
        # Table 1's own runs, and a length that nobody asked for, do not stand here.
        run_of("linear", 1): record(2),
        joined(run_of("linear", 1), 5): measured(0, 1.0),
    }
    (table,) = tables_of(lengths, records)
    standard, linear = table.rows
    assert standard[:4] == ("pairs en-de", "Standard", "16", "2.000")
    assert standard[6:] == ("0.0", "500", "3.00")
    assert linear[1:4] == ("Linear", "16", "2.500")
    assert float(linear[6]) > 1
    assert len(lengths.coverage(records).found) == 2
    assert tables_of(lengths, {})[0].markdown() == "(no runs yet)"
