"""Runs of question answering: what is trained on, what decides, and one clear line about what cannot be."""

from pathlib import Path

import pytest
import torch

from babi_files import write_task
from fastweights.experiments.carry_out import carry_out
from fastweights.experiments.families import codec
from fastweights.experiments.questions.config import QuestionsConfig
from fastweights.experiments.questions.presets import preset
from fastweights.experiments.questions.task import QuestionsTask
from fastweights.experiments.records import load

SMALL = ("model.model_dim=16", "model.num_heads=2", "training.batch_size=4", "training.steps=6")
TINY = codec().changed(preset("questions"), (*SMALL, "training.evaluate_every=3"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_task(tmp_path / "babi", 1, 11)
    return tmp_path / "babi"


def opened(folder: Path) -> QuestionsTask:
    task = TINY.task.open(TINY.training, str(folder))
    assert isinstance(task, QuestionsTask)
    return task


def test_a_tenth_of_the_stories_is_kept_for_validation(folder: Path) -> None:
    task = opened(folder)
    assert (len(task.train.targets), len(task.validation.targets)) == (20, 2)
    assert len(task.prepared_tests["test"].targets) == 22


def test_every_story_comes_once_an_epoch(folder: Path) -> None:
    task = opened(folder)
    task.train.groups[:] = torch.arange(20)[:, None]
    epochs = [
        [int(group) for step in range(5) for group in task.batch_of(5 * epoch + step).groups[:, 0]] for epoch in (0, 1)
    ]
    assert sorted(epochs[0]) == sorted(epochs[1]) == list(range(20))
    assert epochs[0] != epochs[1]
    assert (task.epoch(4), task.epoch(5)) == (0, 1)


def test_steps_after_the_longest_story_of_a_batch_are_left_out(folder: Path) -> None:
    task = opened(folder)
    lengths = {task.batch_of(step).targets.shape[1] for step in range(40)}
    assert lengths <= {2, 3}
    for step in range(40):
        batch = task.batch_of(step)
        assert batch.inputs[:, -1].any()
        assert batch.inputs.shape[1] == batch.targets.shape[1] == batch.groups.shape[1]


def test_a_run_leaves_its_accuracies_and_the_digest_of_the_files(folder: Path, tmp_path: Path) -> None:
    record = carry_out(TINY, tmp_path / "results", data=str(folder))
    assert record is not None
    assert record.result["accuracies"].keys() == {"valid", "test"}
    assert record.result["stories"] == 20
    assert len(record.result["data"].split("-")) == 2
    assert load(tmp_path / "results") == {TINY: record}


def test_more_facts_have_more_layers() -> None:
    layers = []
    for number in (1, 2):
        task = preset("questions", number=number).task
        assert isinstance(task, QuestionsConfig)
        layers.append(task.model.num_layers)
    assert layers == [2, 3]


def test_what_cannot_be_trained_is_refused(folder: Path) -> None:
    with pytest.raises(ValueError, match="data: give the folder of bAbI"):
        TINY.task.open(TINY.training, None)
    with pytest.raises(ValueError, match="number: bAbI has the tasks 1 to 20, got 21"):
        codec().changed(TINY, ["number=21"])
    with pytest.raises(ValueError, match="examples: expected at least 10"):
        codec().changed(TINY, ["examples=1"])
    with pytest.raises(ValueError, match="rule: the models of questions name their rule"):
        preset("questions", "sum", "delta")
    file = next(folder.glob("qa1_*_train.txt"))
    stories = file.read_text()
    file.write_text(stories + "1 Mary moved to the garden.\n" * 40)
    with pytest.raises(ValueError, match=r"there is no question in the \d stories to validate with"):
        opened(folder)
    file.write_text(stories)
    large = codec().changed(TINY, ["training.batch_size=21"])
    with pytest.raises(ValueError, match="batch_size: there are 20 stories to train on, got 21"):
        large.task.open(large.training, str(folder))
