"""The state of a run in its checkpoints: saved or not, and those that are whole but do not belong refused."""

import hashlib
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load, save
from tiny_run import MODEL, TASK, TRAINING, losses, train, trainer

from fastweights.files import FileSystem
from fastweights.runs.checkpoint import CheckpointError, checkpoints
from fastweights.runs.directory import RunDirectory


class FullDisk(FileSystem):
    """Takes so many files, and no more until there is space again."""

    def __init__(self, files: int) -> None:
        self.files = files

    def write(self, path: Path, content: bytes) -> None:
        self.files -= 1
        if self.files < 0:
            raise OSError(28, "No space left on device")
        super().write(path, content)


def test_a_full_disk_says_what_is_left_and_the_run_goes_on_from_there(tmp_path: Path) -> None:
    training = replace(TRAINING, steps=6)
    with pytest.raises(
        OSError, match=r"\(No space left on device\); there is no earlier one; the same .* from the beginning"
    ):
        train(tmp_path / "run", training, file_system=FullDisk(3))
    with pytest.raises(OSError, match=r"step 4 could not be saved .*; that of step 2 is untouched; run the same"):
        train(tmp_path / "run", training, file_system=FullDisk(7))
    assert [path.name for path in checkpoints(tmp_path / "run" / "checkpoints")] == ["step-000002"]
    train(tmp_path / "run", training)
    train(tmp_path / "whole", training)
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")


def test_a_state_is_saved_once(tmp_path: Path) -> None:
    with RunDirectory.claim(tmp_path, {}, {}) as directory:
        run = trainer(directory, replace(TRAINING, steps=2))
        assert run.state.is_saved  # nothing has happened yet
        run.run()
        assert run.state.is_saved
        run.progress.step += 1
        assert not run.state.is_saved


def test_a_task_that_carries_nothing_restores_no_states(tmp_path: Path) -> None:
    train(tmp_path, replace(TRAINING, steps=2))
    with pytest.raises(ValueError, match="states: a task that carries nothing cannot restore them"):
        train(tmp_path, replace(TRAINING, steps=2), task=replace(TASK, carry_state=False))


def files(path: Path) -> dict[str, bytes]:
    """Everything in the checkpoints of a run."""
    return {str(file): file.read_bytes() for file in sorted((path / "checkpoints").rglob("*")) if file.is_file()}


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    train(tmp_path, replace(TRAINING, steps=3))
    for other in (replace(MODEL, model_dim=32), replace(MODEL, num_layers=3)):
        with pytest.raises(CheckpointError, match="a checkpoint of another model"):
            train(tmp_path, replace(TRAINING, steps=3), task=replace(TASK, model=other))


def test_a_checkpoint_of_another_run_is_refused_though_its_tensors_fit(tmp_path: Path) -> None:
    training = replace(TRAINING, steps=3)
    train(tmp_path / "a", training)
    train(tmp_path / "b", replace(training, seed=2))
    shutil.rmtree(tmp_path / "b" / "checkpoints")
    shutil.copytree(tmp_path / "a" / "checkpoints", tmp_path / "b" / "checkpoints")
    before = files(tmp_path / "b")
    with pytest.raises(ValueError, match=r"step-000003: a checkpoint of another run than that of .*b/config.json"):
        train(tmp_path / "b", replace(training, seed=2))
    assert files(tmp_path / "b") == before


def rewritten(checkpoint: Path, name: str, content: bytes) -> None:
    """Put other content into a file of a checkpoint, with a manifest that agrees."""
    (checkpoint / name).write_bytes(content)
    manifest = json.loads((checkpoint / "manifest.json").read_text())
    manifest["files"][name] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
    (checkpoint / "manifest.json").write_text(json.dumps(manifest, sort_keys=True, indent=1) + "\n")


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("model", lambda key, x: {key: x[:-1]}, "a checkpoint of another model"),
        ("model", lambda key, x: {key: x.double()}, "a checkpoint of another model"),
        ("model", lambda key, x: {"other": x}, "only one of the two has"),
        ("optim", lambda key, x: {key: x.double()}, "optim.safetensors is that of another model"),
        ("optim", lambda key, x: {"other.step": x}, "optim.safetensors is that of another model"),
        ("carried", lambda key, x: {key: x[:3]}, "is that of another model"),
        ("carried", lambda key, x: {key: torch.cat([x, x])}, "is that of another model"),
        ("carried", lambda key, x: {key: torch.tensor(1.0)}, "is that of another model"),
        ("carried", lambda key, x: {key: x[..., :-1]}, "is that of another model"),
        ("carried", lambda key, x: {key: x.double()}, "is that of another model"),
        ("carried", lambda key, x: {"9.weights": x}, "those of another model; only one of the two has"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_whatever_the_manifest_says(
    tmp_path: Path, name: str, change: Any, message: str
) -> None:
    train(tmp_path, replace(TRAINING, steps=2))
    checkpoint = tmp_path / "checkpoints" / "step-000002"
    tensors = load((checkpoint / f"{name}.safetensors").read_bytes())
    key = max(tensors, key=lambda key: tensors[key].numel())
    tensors.update({**change(key, tensors.pop(key))})
    rewritten(checkpoint, f"{name}.safetensors", save({k: x.contiguous() for k, x in tensors.items()}))
    with pytest.raises(ValueError, match=message):
        train(tmp_path, replace(TRAINING, steps=2))


@pytest.mark.parametrize("rows", [2, 3, 8])
def test_states_of_another_number_of_rows_are_refused_though_they_agree(tmp_path: Path, rows: int) -> None:
    train(tmp_path, replace(TRAINING, steps=2))
    checkpoint = tmp_path / "checkpoints" / "step-000002"
    tensors = load((checkpoint / "carried.safetensors").read_bytes())
    odd = {key: torch.cat([x, x])[:rows].contiguous() for key, x in tensors.items()}
    rewritten(checkpoint, "carried.safetensors", save(odd))
    with pytest.raises(ValueError, match=rf"that of another model, of shape \({rows},.*not 4 rows"):
        train(tmp_path, replace(TRAINING, steps=2))


@pytest.mark.parametrize(
    "change", [{"recent_losses": "x"}, {"best_loss": []}, {"metrics_bytes": None}, {"seconds": {}}]
)
def test_counters_that_are_none_are_refused_whatever_the_manifest_says(tmp_path: Path, change: dict[str, Any]) -> None:
    train(tmp_path, replace(TRAINING, steps=2))
    checkpoint = tmp_path / "checkpoints" / "step-000002"
    state = json.loads((checkpoint / "state.json").read_text()) | change
    rewritten(checkpoint, "state.json", json.dumps(state).encode())
    with pytest.raises(CheckpointError, match=f"state.json is not what a run writes .{next(iter(change))}: expected"):
        train(tmp_path, replace(TRAINING, steps=2))


def test_metrics_that_were_lost_are_said_to_be(tmp_path: Path) -> None:
    train(tmp_path, replace(TRAINING, steps=2))
    (tmp_path / "metrics.jsonl").unlink()
    said: list[str] = []
    train(tmp_path, replace(TRAINING, steps=2), say=said.append)
    assert len(said) == 1
    assert "metrics.jsonl: shorter than when the checkpoint was written" in said[0]
