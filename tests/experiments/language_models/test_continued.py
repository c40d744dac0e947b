"""`fastweights train --from`: the weights of one run, the steps, text and learning rate of another."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from fastweights.cli.train import TrainOptions, train
from fastweights.experiments.language_models.evaluate import evaluate
from fastweights.experiments.language_models.saved import load_language_model, vocabulary_of
from fastweights.experiments.load import read_run
from fastweights.experiments.options import EvaluateOptions
from fastweights.experiments.records import load
from fastweights.runs.display import Display
from fastweights.training.tensors import digest_of_weights
from tiny_language_model import TINY, train_options, write_book


@pytest.fixture
def first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run that is finished."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    train(train_options(write_book(tmp_path)))
    return tmp_path / "run"


def going_on(first: Path, **changes: Any) -> TrainOptions:
    options = train_options(first.parent / "book.txt", preset=None, weights_of=first, out=first.parent / "second")
    return replace(options, **{"set": ("training.steps=4", "training.learning_rate=1e-9"), **changes})


def test_it_begins_with_the_weights_of_the_other_run(first: Path) -> None:
    train(going_on(first))
    before, after = load_language_model(first)[0], load_language_model(first.parent / "second")[0]
    for (name, x), y in zip(before.named_parameters(), after.parameters(), strict=True):
        torch.testing.assert_close(x, y, rtol=0, atol=1e-7, msg=name)
    run = read_run(first.parent / "second")
    assert run.training.steps == 4
    assert run.task.start == digest_of_weights(load_language_model(first)[2].model)
    assert len(load(first.parent / "results")) == 2, "both runs have a record"


def test_it_is_resumed_as_any_other_run(first: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(going_on(first))
    train(going_on(first))
    assert "this run is finished" in capsys.readouterr().out
    # Other weights are another run.
    train(train_options(first.parent / "book.txt", out=first.parent / "third", set=(*TINY, "training.seed=5")))
    with pytest.raises(ValueError, match="second"):
        train(going_on(first, weights_of=first.parent / "third"))


def test_another_text_is_read_in_the_vocabulary_of_the_weights(first: Path) -> None:
    other = first.parent / "other.txt"
    other.write_text("the dog sat on the red mat\nthe cat ran\n" * 40)
    train(going_on(first, data=str(other)))
    assert vocabulary_of(first.parent / "second") == vocabulary_of(first)
    assert read_run(first.parent / "second").task.text != read_run(first).task.text
    other.write_text("the zebra\n" * 40)
    with pytest.raises(ValueError, match="'zebra' is not one of the 12 words"):
        train(going_on(first, data=str(other), out=first.parent / "fourth"))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"preset": "cpu-linear-delta"}, "preset: expected either a preset or, with --from, a run"),
        ({"weights_of": None}, "preset: expected either a preset or, with --from, a run"),
        ({"tokens": "characters"}, "tokens and vocabulary_size: a run that continues another keeps its vocabulary"),
        ({"weights_of": Path("nowhere")}, "nowhere"),
        ({"set": ("model.model_dim=24",)}, "start: a checkpoint of another model"),
        ({"set": ("start=abc",)}, "start: it is the digest of the weights that training begins with; --from fills"),
        ({"source": "en"}, "source and target: a language model reads one language"),
    ],
)
def test_what_cannot_go_on_is_one_clear_line(first: Path, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(going_on(first, **changes))
    assert not (first.parent / "second").exists()


def test_a_run_on_another_text_knows_its_text_again(first: Path) -> None:
    other = first.parent / "other.txt"
    other.write_text("the dog sat on the red mat\nthe cat ran\n" * 40)
    train(going_on(first, data=str(other)))
    second = first.parent / "second"
    for given in (None, str(other)):
        found = evaluate(EvaluateOptions(second, split="test", data=given), Display())
        assert found["tokens"] < 60, "the last twentieth, not the whole file"
        assert "unknown" not in found
    # Going on from there with the same text takes it as it is.
    train(going_on(first, data=str(other), weights_of=second, out=first.parent / "third"))
    assert read_run(first.parent / "third").task.text == read_run(second).task.text


def test_it_says_where_its_weights_come_from(first: Path) -> None:
    train(going_on(first))
    start = json.loads((first.parent / "second" / "start.json").read_text())
    assert start == {"run": str(first.resolve()), "step": load_language_model(first)[2].step}
    (record,) = [found for run, found in load(first.parent / "results").items() if run.task.start]
    assert record.result["continues"] == {"run": first.name, "step": start["step"]}
