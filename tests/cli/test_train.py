"""`fastweights train`: from a text file to a model and its record, interrupted or not."""

import json
import signal
from pathlib import Path
from typing import Any

import pytest
import torch

from fastweights.cli.train import train
from fastweights.data.text.corpus import Corpus, open_corpus
from fastweights.experiments.language_models import presets
from fastweights.experiments.language_models.saved import load_language_model
from fastweights.experiments.records import load
from fastweights.runs.display import Display
from tiny_language_model import TINY
from tiny_language_model import train_options as options


@pytest.mark.parametrize("tokens", ["words", "characters", "bpe"])
def test_a_text_becomes_a_model(text: Path, tokens: str, capsys: pytest.CaptureFixture[str]) -> None:
    train(options(text, tokens=tokens, vocabulary_size=300 if tokens == "bpe" else None))
    said = capsys.readouterr().out
    assert "step 12/12" in said
    assert "valid perplexity" in said
    assert "finished; try `fastweights generate" in said
    result = json.loads((text.parent / "run" / "result.json").read_text())
    assert result["steps"] == 12
    assert result["best_step"] in (6, 12)


def test_the_run_leaves_a_record(text: Path) -> None:
    train(options(text))
    ((run, record),) = load(text.parent / "results").items()
    assert run.preset == "cpu-linear-delta"
    assert run.training.steps == 12
    result = json.loads((text.parent / "run" / "result.json").read_text())
    assert record.result["best_step"] == result["best_step"]
    assert record.result["best_loss"] == pytest.approx(result["best_loss"], rel=1e-5)
    assert record.curve["step"][-1] == 12
    assert not run.task.is_measured(record.result)


def test_the_same_command_again_says_that_it_is_finished(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train(options(text))
    before = (text.parent / "run" / "metrics.jsonl").read_bytes()
    capsys.readouterr()
    train(options(text))
    assert "this run is finished" in capsys.readouterr().out
    assert (text.parent / "run" / "metrics.jsonl").read_bytes() == before


def test_a_signal_ends_with_its_exit_code_and_the_run_goes_on(
    text: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("fastweights.training.loop.SECONDS_BETWEEN_REPORTS", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(
            Display,
            "update",
            lambda self, status: signal.raise_signal(signal.SIGTERM) if status.step == 5 else None,
        )
        with pytest.raises(SystemExit) as ended:
            train(options(text))
    assert ended.value.code == 143
    assert "stopped by SIGTERM after step 5, all of it saved" in capsys.readouterr().out
    assert not (text.parent / "results" / "records").exists()
    train(options(text))
    assert "finished; try" in capsys.readouterr().out
    (record,) = load(text.parent / "results").values()
    assert [step for step in record.curve["step"] if step != 6] == [*range(1, 6), *range(7, 13), 12]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"preset": "cpu-liner-delta"}, "preset: unknown name 'cpu-liner-delta'"),
        ({"set": ("training.stepz=3",)}, "unknown field 'stepz' .did you mean 'steps'"),
        ({"set": ("training.steps",)}, "set: expected FIELD=VALUE"),
        ({"set": ("training.steps=-1",)}, "steps: expected at least 0"),
        ({"set": ("training.batch_size=100000",)}, "cannot fill 100000 columns"),
        ({"set": (*TINY, "model.num_heads=3")}, "num_heads: expected a positive divisor"),
        ({"set": (*TINY, "model.cutoffs=[9,4]")}, "cutoffs: expected increasing numbers"),
        ({"set": (*TINY, "model.attention.backend=fast")}, "backend: unknown backend 'fast'"),
        ({"set": (*TINY, "training.shuffle=true", "training.seed=-1")}, "seed: expected at least 0"),
        ({"preset": "cpu-transformer", "set": (*TINY, "training.carry_state=true")}, "carry_state: softmax attention"),
        ({"vocabulary_size": 300}, "vocabulary_size: only byte pairs have one, not words"),
        ({"data": "/nowhere"}, "no such file or folder"),
        ({"device": "tpu9"}, "device"),
        ({"device": "cuda:99"}, "device: 'cuda:99' is none of this machine; possible: auto, cpu"),
        ({"threads": 0}, "threads: expected at least 1"),
    ],
)
def test_a_mistake_is_one_message_and_makes_no_run(text: Path, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        train(options(text, **change))
    assert not (text.parent / "run").exists()


def test_a_results_folder_that_is_a_file_is_refused_before_training(text: Path) -> None:
    with pytest.raises(ValueError, match=r"results folder: .* is a file, a folder is needed"):
        train(options(text, results=text))
    assert not (text.parent / "run").exists()


def test_a_text_that_cannot_be_validated_makes_no_run(text: Path) -> None:
    folder = text.parent / "folder"
    folder.mkdir()
    for split, content in {"train": "abc" * 50, "valid": "a", "test": "abc"}.items():
        (folder / f"{split}.txt").write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match="valid: a text of 1 character has nothing to predict"):
        train(options(text, data=str(folder), tokens="characters"))
    assert not (text.parent / "run").exists()


def test_another_run_in_the_folder_is_refused(text: Path) -> None:
    train(options(text))
    with pytest.raises(ValueError, match=r"holds another run; training.learning_rate: 0.001 there, 0.5 asked"):
        train(options(text, set=(*TINY, "training.learning_rate=0.5")))


@pytest.mark.parametrize("name", ["vocabulary.json", "source.json"])
def test_a_file_that_a_kill_left_out_is_written_by_the_same_command(text: Path, name: str) -> None:
    train(options(text))
    file = text.parent / "run" / name
    content = file.read_bytes()
    file.unlink()
    train(options(text))
    assert file.read_bytes() == content


def test_a_text_is_opened_once_by_a_single_process(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = []

    def counted(*given: Any) -> Corpus:
        opened.append(given)
        return open_corpus(*given)

    monkeypatch.setattr(presets, "open_corpus", counted)
    train(options(text))
    assert len(opened) == 1


def test_a_seed_decides_the_weights_a_model_starts_from(text: Path) -> None:
    for seed in (1, 2):
        train(
            options(
                text, out=text.parent / str(seed), set=(*TINY, f"training.seed={seed}", "training.learning_rate=1e-12")
            )
        )
    first, second = (load_language_model(text.parent / str(seed))[0].embedding.table for seed in (1, 2))
    assert not torch.allclose(first, second)
