"""Loading a run by its folder alone, whichever version of the package wrote it."""

import json
from pathlib import Path

import pytest
import torch

from fastweights.cli.train import train
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.load import load_run, read_run
from fastweights.models.language_model import LanguageModel
from tiny_language_model import train_options, write_book


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    train(train_options(write_book(tmp_path)))
    return tmp_path / "run"


def test_a_run_is_what_its_folder_says(folder: Path) -> None:
    model, run, checkpoint = load_run(folder)
    assert isinstance(model, LanguageModel)
    assert not model.training
    assert isinstance(run.task, LanguageModellingConfig)
    assert (run.preset, run.training.steps, run.task.segment_length) == ("cpu-linear-delta", 12, 8)
    for name, tensor in checkpoint.model.items():
        assert torch.equal(model.state_dict()[name], tensor)
    assert read_run(folder) == run


def test_a_folder_of_version_0_1_is_the_same_run(folder: Path) -> None:
    run = read_run(folder)
    path = folder / "config.json"
    plain = json.loads(path.read_text())
    task, training = plain["task"], plain["training"]
    moved = {name: task[name] for name in ("segment_length", "carry_state", "shuffle")}
    earlier = {"model": task["model"], "training": {**training, **moved}, "text": task["text"]}
    path.write_text(json.dumps(earlier))
    assert read_run(folder) == run


@pytest.mark.parametrize("content", ["", "{", "[]", "{}", '{"model": 3}', '{"task": {"name": "x"}, "training": {}}'])
def test_a_damaged_configuration_is_named(content: str, folder: Path) -> None:
    (folder / "config.json").write_text(content)
    with pytest.raises(ValueError, match=r"config\.json: corrupted"):
        load_run(folder)


def test_a_folder_that_is_no_run_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="not the folder of a run"):
        load_run(tmp_path)
