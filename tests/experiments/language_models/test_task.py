"""What a language-model run leaves: its record holds what the model scores, and how far a carried memory helps."""

import json
import math
from pathlib import Path
from typing import Any

import pytest

from fastweights.data.text.corpus import Corpus
from fastweights.evaluation import perplexity
from fastweights.evaluation.perplexity import IndependentSegments, SlidingWindow
from fastweights.experiments.carry_out import carry_out, train_in_turn
from fastweights.experiments.families import codec
from fastweights.experiments.growth.positions import positions
from fastweights.experiments.language_models import table4
from fastweights.experiments.language_models.memory_span import memory_spans
from fastweights.experiments.language_models.perplexities import perplexities
from fastweights.experiments.language_models.presets import PRESETS, for_corpus, for_text
from fastweights.experiments.language_models.saved import load_language_model
from fastweights.experiments.language_models.task import LanguageModelTask
from fastweights.experiments.records import load
from fastweights.files import exclusive
from fastweights.runs.display import Display
from fastweights.runs.record import run_folder
from fastweights.training.distributed import Processes
from fastweights.training.loop import Trainer
from fastweights.training.run import Run
from shown_figures import drawings_of


def trained(name: str, text: Path, corpus: Corpus, results: Path) -> Run:
    run = for_corpus(PRESETS[name], corpus)
    assert carry_out(run, results, data=str(text)) is not None
    return run


def test_the_record_of_a_carried_memory_says_how_far_it_reaches(text: Path, corpus: Corpus, tmp_path: Path) -> None:
    results = tmp_path / "results"
    run = trained("cpu-linear-delta-nopos-carried", text, corpus, results)
    ((found, record),) = load(results).items()
    assert found == run
    model, _, _ = load_language_model(run_folder(results, codec().name(run)))
    emptied = perplexity.evaluate(model, corpus.valid, IndependentSegments(8))
    assert emptied is not None
    assert record.result["reach"].keys() == {"8", "32", "128", "512", "2048"}
    assert record.result["reach"]["8"] == pytest.approx(emptied.loss, rel=1e-5)
    (span,) = memory_spans({found: record}).values()
    assert span[8] == pytest.approx(math.exp(emptied.loss), rel=1e-5)
    assert span[len(corpus.valid) - 1] == pytest.approx(math.exp(record.result["valid"]["loss"]), rel=1e-9)
    (found_positions,) = positions({found: record})
    assert found_positions.edges == (0, len(corpus.valid) - 1)
    assert found_positions.reset[0] == pytest.approx(math.exp(emptied.loss), rel=1e-5)
    assert found_positions.carried[0] == pytest.approx(math.exp(record.result["valid"]["loss"]), rel=1e-5)
    assert found_positions.label == "delta, sum (the paper), ELU+1"
    assert found_positions.carried_in_training
    assert [drawing.name for drawing in drawings_of(table4, {found: record})] == ["reach"]
    assert drawings_of(table4, {}) == []


def test_a_record_holds_what_the_model_scores(text: Path, corpus: Corpus, tmp_path: Path) -> None:
    results = tmp_path / "results"
    run = trained("cpu-linear-delta", text, corpus, results)
    ((found, record),) = load(results).items()
    assert found == run
    assert found.preset == "cpu-linear-delta"
    model, _, checkpoint = load_language_model(run_folder(results, codec().name(run)))
    expected = perplexity.evaluate(model, corpus.test, SlidingWindow(8, 3))
    assert expected is not None
    assert record.result["test"] == {
        "loss": pytest.approx(expected.loss, rel=1e-5),
        "tokens": len(corpus.test) - 1,
        "context": "sliding window of 8, stride 3",
    }
    assert record.result["evaluated_step"] == checkpoint.step
    assert record.curve["valid_loss"][-1] is not None
    reached = perplexities({found: record}).get("cpu", "linear-delta")
    assert reached is not None
    assert reached.test == pytest.approx(math.exp(expected.loss), rel=1e-5)


def in_turn(run: Run, results: Path, text: Path) -> None:
    train_in_turn([run], results, data=str(text), processes=Processes(), display=Display())


def test_what_has_a_record_is_not_trained_again(
    text: Path, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = trained("cpu-transformer", text, corpus, tmp_path)
    monkeypatch.setattr(Trainer, "run", lambda _: pytest.fail("trained again"))
    in_turn(run, tmp_path, text)


def test_a_model_that_was_trained_but_not_measured_is_measured(text: Path, corpus: Corpus, tmp_path: Path) -> None:
    run = trained("cpu-transformer", text, corpus, tmp_path)
    (path,) = (tmp_path / "records").iterdir()
    fields = json.loads(path.read_text())
    measured = {name: fields["result"].pop(name) for name in ("valid", "test", "evaluated_step")}
    path.write_text(json.dumps(fields))
    assert perplexities(load(tmp_path)).found == {}
    in_turn(run, tmp_path, text)
    (record,) = load(tmp_path).values()
    assert {name: record.result[name] for name in measured} == measured


def test_a_run_that_another_process_is_at_is_left_alone(text: Path, corpus: Corpus, tmp_path: Path) -> None:
    run = for_corpus(PRESETS["cpu-transformer"], corpus)
    with exclusive(run_folder(tmp_path, codec().name(run))) as owner:
        assert owner is None
        assert carry_out(run, tmp_path, data=str(text)) is None
        in_turn(run, tmp_path, text)
    assert not (tmp_path / "records").exists()


@pytest.mark.parametrize("test", [None, 5, {}, {"loss": "low"}])
def test_a_record_without_perplexities_is_refused(test: Any, text: Path, corpus: Corpus, tmp_path: Path) -> None:
    trained("cpu-transformer", text, corpus, tmp_path)
    (path,) = (tmp_path / "records").iterdir()
    fields = json.loads(path.read_text())
    path.write_text(json.dumps(fields | {"result": fields["result"] | {"test": test}}))
    with pytest.raises(ValueError, match=r"corrupted record, 'result' has no losses of valid and test"):
        load(tmp_path)
    for reach in ([], {"far": 5.0}, {"256": "low"}):
        path.write_text(json.dumps(fields | {"result": fields["result"] | {"reach": reach}}))
        with pytest.raises(ValueError, match="'reach' is not a table of words and losses"):
            load(tmp_path)


def test_a_run_on_another_text_is_refused(corpus: Corpus) -> None:
    run = for_text(PRESETS["cpu-transformer"], len(corpus.vocabulary), "another digest")
    with pytest.raises(ValueError, match="run: it is that of another text or vocabulary"):
        LanguageModelTask(run.task, run.training, corpus)  # type: ignore[arg-type]


def test_a_language_model_without_a_text_is_refused() -> None:
    run = PRESETS["cpu-transformer"]
    with pytest.raises(ValueError, match="data: a language model needs the text"):
        run.task.open(run.training, None)
