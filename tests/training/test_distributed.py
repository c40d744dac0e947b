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
from tiny_run import MODEL, TRAINING, UPKEEP, train

from fastweights.training.checkpoint import checkpoints, newest_checkpoint, step_of
from fastweights.training.distributed import World

SCRIPT = Path(__file__).with_name("tiny_run.py")


def torchrun(path: Path, steps: int, accumulation: int, dropout: float) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command += [str(SCRIPT), "distributed", str(path), str(steps), str(accumulation), str(dropout)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr


def losses(path: Path) -> list[float]:
    rows: list[dict[str, Any]] = [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]
    return [row[name] for row in rows for name in ("loss", "valid_loss") if name in row]


def assert_close_runs(found: Path, expected: Path) -> None:
    """Losses, weights and carried memories agree to rounding."""
    assert losses(found) == pytest.approx(losses(expected), rel=1e-4)
    there, here = (newest_checkpoint(path / "checkpoints").checkpoint for path in (found, expected))
    assert there is not None
    assert here is not None
    for name, tensor in {**here.model, **here.carried}.items():
        torch.testing.assert_close({**there.model, **there.carried}[name], tensor, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
def test_two_processes_equal_one_with_two_parts(tmp_path: Path) -> None:
    """With dropout too: its masks belong to the part of the batch, whoever computes it."""
    train(tmp_path / "one", replace(TRAINING, steps=14), model=replace(MODEL, dropout=0.2))
    torchrun(tmp_path / "two", 14, accumulation=1, dropout=0.2)
    assert_close_runs(tmp_path / "two", tmp_path / "one")


@pytest.mark.slow
def test_what_two_processes_began_one_ends_and_the_other_way_round(tmp_path: Path) -> None:
    training, model = replace(TRAINING, steps=14, accumulation=1), replace(MODEL, dropout=0.0)
    train(tmp_path / "one", training, model=model, upkeep=replace(UPKEEP, keep_checkpoints=99))
    torchrun(tmp_path / "two", 14, accumulation=1, dropout=0.0)
    for name in ("one", "two"):
        shutil.copytree(tmp_path / name, tmp_path / f"{name}-begun")
        for path in checkpoints(tmp_path / f"{name}-begun" / "checkpoints"):
            if step_of(path) > 6:
                shutil.rmtree(path)
    train(tmp_path / "two-begun", training, model=model)
    torchrun(tmp_path / "one-begun", 14, accumulation=1, dropout=0.0)
    for name in ("two", "two-begun", "one-begun"):
        assert_close_runs(tmp_path / name, tmp_path / "one")


def test_alone_nothing_is_sent() -> None:
    world = World()
    assert world.first
    assert world.any(True, False) == [True, False]
    assert world.mean(0.1) == 0.1
    assert world.from_first(7) == 7
    assert world.gather({"x": torch.ones(2)})[0]["x"].tolist() == [1.0, 1.0]


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(ValueError, match="device: 'gpu' is none; possible: auto, cpu"):
        World.device_named("gpu")


def test_a_batch_that_cannot_be_shared_is_refused() -> None:
    with pytest.raises(ValueError, match="4 columns cannot be shared by 3 parts"):
        TRAINING.columns(0, 3)
