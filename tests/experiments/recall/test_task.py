"""Runs of recall: what they draw, what they leave, and that a small one learns."""

from pathlib import Path

import pytest
import torch

from fastweights.data.words import GroupWords
from fastweights.experiments.carry_out import carry_out
from fastweights.experiments.families import codec
from fastweights.experiments.recall.config import RecallConfig
from fastweights.experiments.recall.presets import PROBLEMS, preset
from fastweights.experiments.recall.task import RecallTask
from fastweights.experiments.records import load
from fastweights.training.task import Share

TINY = codec().changed(
    preset("rebinding"),
    ["problem.events=6", "model.model_dim=16", "model.num_heads=2", "training.steps=4", "training.evaluate_every=2"],
)


def opened(seed: int = 1) -> RecallTask:
    run = preset("rebinding", seed=seed)
    task = run.task.open(run.training, None)
    assert isinstance(task, RecallTask)
    return task


def test_batches_and_tests_follow_from_the_seed_and_the_step() -> None:
    one, again, other = opened(), opened(), opened(seed=2)
    assert torch.equal(one.batch_of(3).inputs, again.batch_of(3).inputs)
    assert not torch.equal(one.batch_of(3).inputs, one.batch_of(4).inputs)
    assert not torch.equal(one.batch_of(3).inputs, other.batch_of(3).inputs)
    assert torch.equal(one.prepared_tests["x4"].inputs, again.prepared_tests["x4"].inputs)
    assert one.prepared_tests["x4"].inputs.shape[1] == 4 * one.prepared_tests["x1"].inputs.shape[1]
    half, _ = one.batch(3, Share(1, 2))
    assert torch.equal(half.inputs, one.batch_of(3).inputs[16:])


def test_a_run_leaves_its_accuracies(tmp_path: Path) -> None:
    record = carry_out(TINY, tmp_path)
    assert record is not None
    assert record.result["accuracies"].keys() == {"x1", "x4"}
    assert 0 <= record.result["accuracies"]["x4"]["all"] <= 1
    assert record.curve["step"] == [2, 4]
    assert load(tmp_path) == {TINY: record}


@pytest.mark.parametrize("name", PROBLEMS)
def test_every_problem_can_be_written_down_and_read(name: str) -> None:
    run = preset(name, "delta")
    assert codec().from_plain(codec().to_plain(run)) == run
    assert run.slug == f"{name}-delta-seed1"


def test_any_field_can_be_changed() -> None:
    changed = codec().changed(preset("words-s3"), ["problem.group=s4", "model.num_layers=2", "times=[1,2]"])
    assert isinstance(changed.task, RecallConfig)
    assert changed.task.problem == GroupWords("s4")
    assert changed.task.tests == {"x1": 1, "x2": 2}


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ("problem.group=a5", "group: expected z2"),
        ("times=[]", "times: expected different multiples"),
        ("times=[4,4]", "times: expected different multiples"),
        ("test_rows=0", "test_rows: expected at least 1"),
        ("label_smoothing=1.0", "label_smoothing: expected a share from 0 to below 1"),
        ("problem.lenght=3", "unknown field 'lenght'"),
    ],
)
def test_what_cannot_be_is_refused(change: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        codec().changed(preset("parity"), [change])


def test_a_rule_beside_the_model_and_an_unknown_problem_are_refused() -> None:
    with pytest.raises(ValueError, match="rule: the models of parity name their rule"):
        preset("parity", "sum", "delta")
    with pytest.raises(ValueError, match="problem: unknown name 'partiy'"):
        preset("partiy")


@pytest.mark.slow
@pytest.mark.parametrize(("model", "solves"), [("signed-delta-2", True), ("signed-delta", False)])
def test_parity_needs_a_strength_beyond_one(model: str, solves: bool, tmp_path: Path) -> None:
    record = carry_out(codec().changed(preset("parity", model), ["training.steps=200"]), tmp_path)
    assert record is not None
    found = record.result["accuracies"]["x6"]
    assert (found["5"] > 0.99) == solves
    assert solves or found["5"] < 0.6
