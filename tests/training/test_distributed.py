"""Two processes train the model that one trains."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny_run import MODEL, POLICY, TASK, TRAINING, train

from fastweights.runs.checkpoint import checkpoints, newest_checkpoint, step_of
from fastweights.training.config import TrainingConfig
from fastweights.training.distributed import Processes
from fastweights.training.task import Share

SCRIPT = Path(__file__).with_name("tiny_run.py")
DROPOUT = 0.2
TRAINING_ONCE = replace(TRAINING, steps=14, accumulation=1)


def torchrun(path: Path, training: TrainingConfig, *others: object) -> None:
    """Train the tiny model with two processes."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(SCRIPT), "distributed", str(path), str(training.steps), str(training.accumulation), str(DROPOUT)]
    command += map(str, others)
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "FutureWarning" not in done.stderr
    # A group whose threads outlive it can abort a process that has long done its work.
    assert done.stdout.count("threads left by gloo: 0") + done.stdout.count("threads left by gloo: None") == 2


def alone(path: Path, training: TrainingConfig) -> None:
    task = replace(TASK, model=replace(MODEL, dropout=DROPOUT))
    train(path, training, task=task, policy=replace(POLICY, keep_checkpoints=99))


def begun(path: Path, step: int) -> Path:
    """A copy of a run as it was when it saved a step."""
    copy = Path(shutil.copytree(path, path.with_name(f"{path.name}-begun")))
    for later in checkpoints(copy / "checkpoints"):
        if step_of(later) > step:
            shutil.rmtree(later)
    return copy


def losses(path: Path) -> list[float]:
    rows: list[dict[str, Any]] = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [row[name] for row in rows for name in ("loss", "gradient_norm", "valid_loss") if name in row]


def assert_close_runs(found: Path, expected: Path) -> None:
    """Losses, weights and carried memories agree to rounding."""
    assert losses(found) == pytest.approx(losses(expected), rel=1e-5)
    there, here = (newest_checkpoint(path / "checkpoints").checkpoint for path in (found, expected))
    assert there is not None
    assert here is not None
    for name, tensor in {**here.model, **here.carried}.items():
        torch.testing.assert_close({**there.model, **there.carried}[name], tensor, rtol=1e-4, atol=1e-5)


def test_two_processes_train_the_model_that_one_trains(tmp_path: Path) -> None:
    """With dropout too: a mask belongs to a column of the batch, whoever computes it."""
    alone(tmp_path / "one", TRAINING_ONCE)
    torchrun(tmp_path / "two", TRAINING_ONCE)
    assert_close_runs(tmp_path / "two", tmp_path / "one")
    alone(begun(tmp_path / "two", 6), TRAINING_ONCE)
    assert_close_runs(tmp_path / "two-begun", tmp_path / "one")


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2])
def test_what_one_process_began_two_end(tmp_path: Path, parts: int) -> None:
    training = replace(TRAINING_ONCE, accumulation=parts)
    alone(tmp_path / "one", training)
    torchrun(begun(tmp_path / "one", 6), training)
    assert_close_runs(tmp_path / "one-begun", tmp_path / "one")


@pytest.mark.slow
def test_what_is_not_finite_in_one_process_is_skipped_by_both(tmp_path: Path) -> None:
    torchrun(tmp_path, replace(TRAINING_ONCE, steps=5), 3)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "skipped" in row] == [3]
    assert [row["step"] for row in rows if "loss" in row] == [1, 2, 4, 5]


def test_alone_nothing_is_sent() -> None:
    processes = Processes()
    assert processes.first
    assert processes.any_of(True, False) == [True, False]
    assert processes.mean(0.1) == 0.1
    assert processes.broadcast(7) == 7
    assert processes.gather({"x": torch.ones(2)})[0]["x"].tolist() == [1.0, 1.0]


@pytest.mark.parametrize("name", ["gpu", "cuda", "cuda:1", "meta"])
def test_a_device_that_is_not_there_is_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    with pytest.raises(ValueError, match=f"device: '{name}' is none of this machine; possible: auto, cpu$"):
        Processes.device_named(name)


def test_gpus_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert [Processes.device_named(name).index for name in ("cuda", "cuda:0", "cuda:1")] == [None, 0, 1]
    with pytest.raises(ValueError, match="'cuda:2' is none of this machine; possible: auto, cpu, cuda, cuda:0, cuda:1"):
        Processes.device_named("cuda:2")


def test_a_batch_that_cannot_be_shared_is_refused() -> None:
    with pytest.raises(ValueError, match="4 rows cannot be shared by 3 parts"):
        Share(0, 3).of(TRAINING.batch_size)
