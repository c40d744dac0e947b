"""Runs with pictures: which pictures are trained on, and what a record holds."""

from pathlib import Path

import pytest
import torch

from fastweights.experiments.carry_out import carry_out
from fastweights.experiments.families import codec
from fastweights.experiments.images.image_memory import measure_memory
from fastweights.experiments.images.presets import preset
from fastweights.experiments.images.task import ImagesTask
from fastweights.experiments.records import load, missing
from fastweights.models.attention import FastWeightAttentionConfig
from fastweights.training.run import Run
from idx_files import write_images

SMALL = ("model.model_dim=16", "model.num_heads=2", "episodes.pictures=4", "test_rows=3", "training.batch_size=2")


def tiny(model: str) -> Run:
    return codec().changed(preset("images", model), (*SMALL, "training.steps=2", "training.evaluate_every=1"))


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "images").mkdir()
    write_images(tmp_path / "images", count=120, side=5)
    return str(tmp_path / "images")


def test_a_sixth_of_the_pictures_decides(folder: str) -> None:
    run = tiny("delta")
    task = run.task.open(run.training, folder)
    assert isinstance(task, ImagesTask)
    assert (len(task.train), len(task.validation), len(task.images.test)) == (100, 20, 120)
    assert list(task.prepared_tests) == ["valid", "x1", "x4"]
    assert torch.equal(task.batch_of(1).inputs, task.batch_of(1).inputs)
    assert not torch.equal(task.batch_of(1).inputs, task.batch_of(2).inputs)


def test_a_record_holds_accuracies_and_the_untrained_memory(folder: str, tmp_path: Path) -> None:
    run = tiny("delta-l2")
    record = carry_out(run, tmp_path / "results", data=folder)
    assert record is not None
    assert record.result["accuracies"].keys() == {"valid", "x1", "x4"}
    task = run.task.open(run.training, folder)
    assert isinstance(task, ImagesTask)
    attention = task.config.model.attention
    assert isinstance(attention, FastWeightAttentionConfig)
    expected = measure_memory(attention, torch.from_numpy(task.images.test.pixels), 1)
    assert record.result["image_memory"]["retrieved"] == expected["retrieved"]
    assert missing([run], tmp_path / "results") == []
    assert load(tmp_path / "results") == {run: record}


def test_softmax_attention_has_no_untrained_memory(folder: str, tmp_path: Path) -> None:
    record = carry_out(tiny("softmax"), tmp_path / "results", data=folder)
    assert record is not None
    assert record.result["image_memory"] is None


def test_a_digit_without_pictures_is_named_before_training(folder: str) -> None:
    file = Path(folder) / "t10k-labels-idx1-ubyte"
    content = file.read_bytes()
    file.write_bytes(content[:8] + content[8:].replace(b"\x09", b"\x08"))
    run = tiny("sum")
    with pytest.raises(ValueError, match="images: there is no picture of 9 among"):
        run.task.open(run.training, folder)


def test_what_cannot_be_trained_is_refused() -> None:
    run = tiny("delta")
    with pytest.raises(ValueError, match="data: give the folder with the IDX files of MNIST as --data FOLDER"):
        run.task.open(run.training, None)
    for change, complaint in (("times=[0]", "times: expected"), ("hidden_dim=0", "hidden_dim: expected at least 1")):
        with pytest.raises(ValueError, match=complaint):
            codec().changed(run, [change])
    with pytest.raises(ValueError, match="rule: the models of images name their rule"):
        preset("images", "sum", "delta")
