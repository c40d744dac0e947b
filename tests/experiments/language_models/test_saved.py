"""The folder of a trained language model: which checkpoint is loaded, and what is said about a damaged one."""

import json
from pathlib import Path

import pytest

from fastweights.cli.train import train
from fastweights.experiments.families import codec
from fastweights.experiments.language_models.saved import load_language_model, vocabulary_of
from fastweights.experiments.load import load_run
from fastweights.experiments.retrieval.presets import preset
from fastweights.files import to_json
from tiny_language_model import train_options, write_book


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    train(train_options(write_book(tmp_path)))
    return tmp_path / "run"


def test_the_best_checkpoint_is_loaded_unless_the_newest_is_asked_for(folder: Path) -> None:
    result = json.loads((folder / "result.json").read_text())
    assert load_run(folder)[2].step == result["best_step"]
    assert load_run(folder, "newest")[2].step == 12
    assert load_language_model(folder)[2].step == result["best_step"]


def test_a_damaged_checkpoint_is_passed_over_and_named(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    newest = max((folder / "checkpoints").glob("step-*"))
    (newest / "model.safetensors").write_bytes(b"")
    assert load_run(folder, "newest")[2].step < int(newest.name[5:])
    assert f"{newest / 'model.safetensors'}: 0 bytes" in capsys.readouterr().err


def test_the_run_of_another_task_is_named(folder: Path) -> None:
    other = codec().to_plain(preset("capacity", "dpfp1"))
    (folder / "config.json").write_text(to_json(other))
    with pytest.raises(ValueError, match="runs of this task keep no model"):
        load_language_model(folder)
    (folder / "vocabulary.json").unlink()
    with pytest.raises(ValueError, match="the run of another task, not of a language model"):
        vocabulary_of(folder)
