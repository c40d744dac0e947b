"""Tables 2-5: what they train, what remains of it, and how perplexities are shown."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fastweights.cli.reproduce import train
from fastweights.data.text.corpus import Corpus
from fastweights.experiments.families import codec, shown_module
from fastweights.experiments.language_models import table2, table3, table4, table5
from fastweights.experiments.language_models.claims import judge_carried
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.perplexities import PAPER, Perplexities, Perplexity, perplexities
from fastweights.experiments.language_models.presets import PRESETS, for_corpus, for_text
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.paper import paper_report
from fastweights.experiments.records import load
from fastweights.runs.record import Record
from fastweights.training.run import Run
from shown_figures import tables_of

TABLES = {"table2": table2.TABLE, "table3": table3.TABLE, "table4": table4.TABLE, "table5": table5.TABLE}


def test_every_model_of_every_table_is_a_preset() -> None:
    for name, table in TABLES.items():
        assert table.name == name
        for scale in ("cpu", "paper"):
            assert set(table.presets(scale)) <= set(PRESETS)
        for size in table.sizes:
            added = ("centred", "gated", "resets", "columns", "rewritten", "published")
            own = {model for model in table.models.values() if any(part in model for part in added)}
            assert {model for model in table.models.values() if PAPER.get(size, model) is None} == own
    assert TABLES["table2"].presets("paper")[5] == "medium-transformer"
    task = PRESETS["cpu-linear-delta-nopos-carried"].task
    assert isinstance(task, LanguageModellingConfig)
    assert not task.model.positions


def test_tables_are_trained_and_shown(text: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    train(("table4", "table3"), ReproduceOptions(data=str(text), device="cpu"), results)
    records = load(results)
    assert len(records) == 20
    contexts = {record.result["valid"]["context"] for record in records.values()}
    assert contexts == {"memory carried over the whole text, segments of 8", "sliding window of 8, stride 3"}
    ours, theirs, _ = tables_of(shown_module("table4"), records)
    assert ours.columns[2:6] == tuple(
        f"{text}, ours, cpu{form}" for form in ("", ", truncated") for text in ("valid", "test")
    )
    assert theirs.columns[2:4] == ("valid, paper, medium", "test, paper, medium")
    assert theirs.rows[1] == ("Linear", "delta", "27.8", "29.4", "28.1", "31.1")
    assert theirs.rows[2] == ("Transformer-XL", "–", "24.6", "25.5", "–", "–")
    assert all(float(cell) > 1 for row in ours.rows for cell in row[2:4])
    assert all(float(cell) > 1 for row in ours.rows for cell in row[4:6])
    html = paper_report(records).html()
    assert "20 records of language models" in html
    assert "4 of 4" in html


@pytest.mark.slow
def test_models_are_trained_side_by_side_if_jobs_are_asked_for(text: Path, tmp_path: Path, corpus: Corpus) -> None:
    results = tmp_path / "results"
    train(("table4",), ReproduceOptions(data=str(text), device="cpu", jobs=2), results)
    assert set(load(results)) == {for_corpus(PRESETS[name], corpus) for name in table4.TABLE.presets()}


def test_another_text_is_refused_before_any_training(text: Path, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("one more word than before\n" * 100, encoding="utf-8")
    with pytest.raises(ValueError, match=r"other.txt: this text has \d+ words; tables .* are about wikitext-2"):
        train(("table2",), ReproduceOptions(data=str(tmp_path / "other.txt"), device="cpu"), tmp_path / "results")
    assert not (tmp_path / "results").exists()


def test_what_only_figures_have_is_refused() -> None:
    with pytest.raises(ValueError, match="--quick is for figures"):
        table2.runs(ReproduceOptions(quick=True))


@pytest.mark.usefixtures("corpus")
def test_other_seeds_are_for_the_models_that_decide_a_claim(text: Path) -> None:
    first, *others = (table4.runs(ReproduceOptions(data=str(text), seeds=seeds)) for seeds in ((), (1111,), (1, 2)))
    assert first == others[0]
    assert {run.training.seed for run in first} == {1111}
    assert [(run.training.seed, run.preset) for run in others[1]] == [
        (seed, run.preset) for seed in (1, 2) for run in first if run.preset.removeprefix("cpu-") in table4.DECIDING
    ]
    assert len(table2.runs(ReproduceOptions(data=str(text), seeds=(1,)))) == 5


def test_perplexities_of_two_texts_never_share_a_table() -> None:
    ours = Perplexities({"cpu": {"linear-sum-nopos-carried": Perplexity.of_losses(math.log(250.04), None)}})
    table, paper = TABLES["table4"].on_wikitext2(ours), TABLES["table4"].on_wikitext103(ours)
    assert (table.name, paper.name) == ("table4", "table4-wikitext-103")
    assert table.caption == "Perplexity per word on WikiText-2, `<eos>` included."
    assert table.rows[0] == ("Linear", "sum", "250.0", "infinite", *"––")
    assert table.rows[2] == ("Linear", "delta", *"––––")
    assert [row[:4] for row in paper.rows[:2]] == [
        ("Linear", "sum", "> 1600", "> 1600"),
        ("Linear", "delta", "27.8", "29.4"),
    ]
    assert TABLES["table4"].on_wikitext2(Perplexities()).markdown() == "(no runs yet)"
    large = Perplexities(
        {"medium": {"linear-delta-nopos-carried": Perplexity.of_losses(math.log(28.0), math.log(29.0))}}
    )
    own = TABLES["table4"].on_wikitext103(large)
    assert own.columns[-4:] == (
        "valid, ours, medium",
        "test, ours, medium",
        "valid, ours, medium, truncated",
        "test, ours, medium, truncated",
    )
    assert own.rows[1] == ("Linear", "delta", "27.8", "29.4", "28.1", "31.1", "28.0", "29.0", "–", "–")


def measured(
    model: str, valid: float, test: float, reach: dict[str, float] | None = None, seed: int = 1111
) -> dict[Run, Record]:
    """A record of a model for CPUs with these perplexities, and those of memories that are emptied."""
    result: dict[str, Any] = {"best_loss": 5.0, "last_loss": 5.0, "steps": 1}
    result |= {
        text: {"loss": math.log(x), "tokens": 900, "context": ""} for text, x in (("valid", valid), ("test", test))
    }
    if reach is not None:
        result["reach"] = {words: math.log(x) for words, x in reach.items()}
    run = for_text(PRESETS[f"cpu-{model}"], 33_278, "some text")
    return {replace(run, training=replace(run.training, seed=seed)): Record({}, result, {}, {})}


def test_a_carried_memory_is_judged_beside_its_own_truncated_form() -> None:
    assert table4.TRUNCATED["linear-delta-centred-nopos-carried-resets"] == "linear-delta-centred-nopos"
    assert "transformer-xl" not in table4.TRUNCATED  # its memory is not of fixed size
    gated, plain = "linear-gated-centred-nopos-carried", "linear-delta-nopos-carried"
    records = measured(gated, 180, 170, {"256": 200, "512": 190}) | measured("linear-gated-centred-nopos", 182, 172)
    records |= measured(plain, 240, 210, {"256": 241, "512": 239}) | measured("linear-delta-nopos", 200, 211)
    rows = dict(zip(table4.MODELS.values(), tables_of(table4, records)[0].rows, strict=True))
    assert rows[gated][2:] == ("180.0", "170.0", "182.0", "172.0", "valid and test", "never")
    assert rows[plain][2:] == ("240.0", "210.0", "200.0", "211.0", "test: undecided", "after 512 words")
    assert rows["transformer-xl"][2:] == tuple("––––––")
    records |= measured("transformer-xl", 150, 140) | measured("transformer-relative", 160, 150)
    rows = dict(zip(table4.MODELS.values(), tables_of(table4, records)[0].rows, strict=True))
    assert rows["transformer-xl"][2:] == ("150.0", "140.0", "160.0", "150.0", "valid and test", "–")
    finding = judge_carried(perplexities(records))
    assert finding.verdict == "holds"
    assert f"cpu: {gated} 180.0 and 170.0 against 182.0 and 172.0 truncated" in finding.evidence
    records |= measured(gated, 180, 175)
    assert judge_carried(perplexities(records)).verdict == "does not hold"
    assert judge_carried(Perplexities()).verdict == "not run yet"


def test_one_seed_does_not_decide_a_small_difference_and_three_that_agree_do() -> None:
    carried, truncated = "linear-gated-nopos-carried", "linear-gated-nopos"
    records = measured(carried, 198.9, 183.3) | measured(truncated, 199.2, 183.8)
    finding = judge_carried(perplexities(records))
    assert finding.verdict == "undecided"
    assert tables_of(table4, records)[0].rows[4][-2] == "valid and test: undecided"
    for seed in (1, 2):
        records |= measured(carried, 198 + seed, 182, seed=seed) | measured(truncated, 198.5 + seed, 182.2, seed=seed)
    finding = judge_carried(perplexities(records))
    assert finding.verdict == "holds"
    assert f"{carried} 199.3 ± 0.6 and 182.4 ± 0.8 against 199.7 ± 0.7 and 182.7 ± 0.9 truncated" in finding.evidence
    records |= measured(carried, 201, 182.3, seed=2)
    assert judge_carried(perplexities(records)).verdict == "undecided"


def test_a_run_of_ones_own_is_not_taken_for_one_of_the_table() -> None:
    run = for_text(PRESETS["cpu-linear-delta"], 33_278, "some text")
    score: dict[str, Any] = {"loss": 5.0, "tokens": 10, "context": ""}
    record = Record({}, {"best_loss": 5.0, "last_loss": 5.0, "steps": 1, "valid": score, "test": score}, {}, {})
    found, wanted, _ = table2.coverage({run: record})
    assert len(found) == 1
    assert table2.coverage({run: record, codec().changed(run, ["training.seed=1"]): record})[:2] == (
        [record, record],
        wanted + 1,
    )
    for change in ("training.steps=7", "model.num_layers=2", "segment_length=128"):
        other = codec().changed(run, [change])
        assert table2.coverage({other: record}).found == []
        assert tables_of(table2, {other: record})[0].rows == ()
