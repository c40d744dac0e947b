"""Tables 2-5: what they train, what remains of it, and how perplexities are shown and judged."""

import json
import math
from dataclasses import replace
from pathlib import Path

import pytest
from fastweights.cli.options import TableOptions
from fastweights.experiments.language_models.records import carry_out, context_of, load, name_of, perplexities, reaches
from fastweights.runs.training_display import TrainingDisplay

from fastweights.data.text.corpus import PUBLIC, Corpus, PublicCorpus, open_corpus
from fastweights.data.text.tokenizers import Words
from fastweights.evaluation import perplexity
from fastweights.evaluation.perplexity import IndependentSegments, SlidingWindow
from fastweights.experiments import language_model_records, tables
from fastweights.experiments.language_models.perplexities import PAPER, Perplexities, Perplexity
from fastweights.experiments.language_models.presets import PRESETS
from fastweights.experiments.language_models.tables import TABLES, perplexity_table, report, train_tables
from fastweights.experiments.language_models.task import load_run, preset_run
from fastweights.experiments.paper import paper_report
from fastweights.runs.record import exclusive, record_path, run_directory
from fastweights.training.distributed import World

QUIET = TrainingDisplay("word", quiet=True)


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A tiny text that counts as WikiText-2, and cpu presets that are as tiny."""
    lines = ["the cat sat on the mat\n", "a dog ran after the cat\n", "\n", "the mat was red\n"] * 30
    (tmp_path / "book.txt").write_text("".join(lines), encoding="utf-8")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    for name, preset in list(PRESETS.items()):
        if name.startswith("cpu-"):
            model = replace(preset.model, model_dim=8, num_heads=2, num_layers=1, feed_forward_dim=8)
            tiny = replace(preset, model=model, max_steps=4, batch_size=2, segment_length=8, warmup_steps=0)
            monkeypatch.setitem(PRESETS, name, tiny)
    size = len(corpus(tmp_path / "book.txt").vocabulary)
    monkeypatch.setitem(PUBLIC, "wikitext-2", PublicCorpus("", "", (0, 0, 0), size))
    monkeypatch.setitem(language_model_records.STRIDES, "cpu", 3)
    return tmp_path / "book.txt"


def corpus(text: Path) -> Corpus:
    return open_corpus(text, Words())


def test_every_model_of_every_table_is_a_preset() -> None:
    for table in TABLES.values():
        for scale in ("cpu", "paper"):
            assert set(table.presets(scale)) <= set(PRESETS)
        for size in table.sizes:
            assert all(PAPER.get(size, model) is not None for model in table.models.values())
    assert TABLES["table2"].presets("paper")[5] == "medium-transformer"
    assert not PRESETS["cpu-linear-delta-nopos-carried"].model.positions


def test_the_record_of_a_carried_memory_says_how_far_it_reaches(text: Path, tmp_path: Path) -> None:
    results, given = tmp_path / "results", corpus(text)
    assert carry_out("cpu-linear-delta-nopos-carried", given, results, world=World(), display=QUIET, source=str(text))
    ((run, record),) = load(results).items()
    name = name_of("cpu-linear-delta-nopos-carried", run)
    model, _, _ = load_run(run_directory(results, name) / "model")
    emptied = perplexity.evaluate(model, given.valid, IndependentSegments(8))
    assert emptied is not None
    assert record.result["reach"].keys() == {"8", "32", "128", "512", "2048"}
    assert record.result["reach"]["8"] == pytest.approx(emptied.loss, rel=1e-5)
    (reach,) = reaches({run: record}).values()
    assert reach[8] == pytest.approx(math.exp(emptied.loss), rel=1e-5)
    assert reach[len(given.valid) - 1] == pytest.approx(math.exp(record.result["valid"]["loss"]), rel=1e-9)
    assert [drawing.name for drawing in report("table4", {run: record}).drawings] == ["reach"]
    assert report("table4", {}).drawings == ()


def test_a_record_holds_what_the_model_scores(text: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    given = corpus(text)
    name = name_of("cpu-linear-delta", preset_run("cpu-linear-delta", given))
    assert carry_out("cpu-linear-delta", given, results, world=World(), display=QUIET, source=str(text))
    ((run, record),) = load(results).items()
    assert run == preset_run("cpu-linear-delta", given)
    model, _, checkpoint = load_run(run_directory(results, name) / "model")
    expected = perplexity.evaluate(model, given.test, SlidingWindow(8, 3))
    assert expected is not None
    assert record.result["test"] == {
        "loss": pytest.approx(expected.loss, rel=1e-5),
        "tokens": len(given.test) - 1,
        "context": "sliding window of 8, stride 3",
    }
    assert record.result["evaluated_step"] == checkpoint.step
    assert record.curve["valid_loss"][-1] is not None
    found = perplexities({run: record}).get("cpu", "linear-delta")
    assert found is not None
    assert found.test == pytest.approx(math.exp(expected.loss), rel=1e-5)


def test_what_has_a_record_is_not_trained_again(text: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    given = corpus(text)
    path = record_path(results, name_of("cpu-transformer", preset_run("cpu-transformer", given)))
    path.parent.mkdir(parents=True)
    path.write_text("{}")
    assert carry_out("cpu-transformer", given, results, world=World(), display=QUIET, source=str(text))
    assert not (results / "runs").exists()


def test_a_run_that_another_process_is_at_is_left_alone(text: Path, tmp_path: Path) -> None:
    given = corpus(text)
    name = name_of("cpu-transformer", preset_run("cpu-transformer", given))
    with exclusive(run_directory(tmp_path, name)) as owned:
        assert owned
        assert not carry_out("cpu-transformer", given, tmp_path, world=World(), display=QUIET, source=str(text))
    assert not (tmp_path / "records").exists()


def test_tables_are_trained_and_shown(text: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    train_tables(["table4", "table3"], results, TableOptions(data=str(text)))
    records = load(results)
    assert len(records) == 7
    contexts = {record.result["valid"]["context"] for record in records.values()}
    assert contexts == {"memory carried over the whole text, segments of 8", "sliding window of 8, stride 3"}
    table = tables.report("table4", records).tables[0]
    assert table.columns[-2:] == ("valid, ours, cpu, WikiText-2", "test, ours, cpu, WikiText-2")
    assert table.rows[2][:4] == ("Transformer-XL", "–", "24.6", "25.5")
    assert all(float(cell) > 1 for row in table.rows for cell in row[-2:])
    html = paper_report({}, records).html()
    assert "7 records of language models" in html
    assert "4 of 4" in html


def test_a_record_without_perplexities_is_refused(text: Path, tmp_path: Path) -> None:
    results = tmp_path / "results"
    given = corpus(text)
    carry_out("cpu-transformer", given, results, world=World(), display=QUIET, source=str(text))
    (path,) = (results / "records").iterdir()
    fields = json.loads(path.read_text())
    for reach in ([], {"far": 5.0}, {"256": "low"}):
        path.write_text(json.dumps(fields | {"result": fields["result"] | {"reach": reach}}))
        with pytest.raises(ValueError, match="'reach' is not a table of words and losses"):
            load(results)
    for test in (None, 5, {}, {"loss": "low"}):
        path.write_text(json.dumps(fields | {"result": fields["result"] | {"test": test}}))
        with pytest.raises(ValueError, match="no losses of valid and test"):
            load(results)


def test_another_text_is_refused_before_any_training(text: Path, tmp_path: Path) -> None:
    (tmp_path / "other.txt").write_text("one more word than before\n" * 100, encoding="utf-8")
    with pytest.raises(ValueError, match=r"other.txt: this text has \d+ words; tables .* are about wikitext-2"):
        train_tables(["table2"], tmp_path / "results", TableOptions(data=str(tmp_path / "other.txt")))
    assert not (tmp_path / "results").exists()


def test_the_paper_measures_with_stride_one() -> None:
    for preset in ("small-transformer", "medium-linear-delta"):
        run = language_model_records.described(preset, 267_735, "")
        assert context_of(preset, run) == SlidingWindow(run.training.segment_length, 1)
    run = language_model_records.described("medium-linear-delta-nopos-carried", 267_735, "")
    assert str(context_of("medium-linear-delta-nopos-carried", run)).startswith("memory carried over the whole text")


def test_perplexities_stand_beside_those_of_the_paper() -> None:
    ours = Perplexities({"cpu": {"linear-sum-nopos-carried": Perplexity.of_losses(math.log(250.04), None)}})
    table = perplexity_table(TABLES["table4"], ours)
    assert table.rows[0] == ("Linear", "sum", "> 1600", "> 1600", "250.0", "infinite")
    assert table.rows[1] == ("Linear", "delta", "27.8", "29.4", "–", "–")
    assert perplexity_table(TABLES["table4"], Perplexities()).markdown() == "(no runs yet)"
