"""Two processes train the model that one trains."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
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


def torchrun(runs: dict[Path, str], training: TrainingConfig, *others: object, processes: int = 2) -> str:
    """Train the tiny model with several processes, in each folder with its kind of sharding; returns the output."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    command += [str(SCRIPT), "distributed", ",".join(map(str, runs)), str(training.steps), str(training.accumulation)]
    command += [str(DROPOUT), ",".join(runs.values()), *map(str, others)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stderr
    assert "Warning" not in done.stderr
    # A group whose threads outlive it can abort a process that has long done its work.
    assert done.stdout.count("threads left by gloo: 0") + done.stdout.count("threads left by gloo: None") == processes
    return done.stdout


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


def elements(output: str) -> tuple[list[int], int]:
    """How many numbers of the parameters each process had, and how many there are; as many as of each moment."""
    found = re.findall(r"elements here: \[(\d+), (\d+), (\d+)\] of (\d+)", output)
    assert all(parameters == first == second for parameters, first, second, _ in found)
    return [int(parameters) for parameters, *_ in found], int(found[0][-1])


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
    output = torchrun({tmp_path / "replicas": "none", tmp_path / "shards": "full"}, TRAINING_ONCE)
    for kind in ("replicas", "shards"):
        assert_close_runs(tmp_path / kind, tmp_path / "one")
        alone(begun(tmp_path / kind, 6), TRAINING_ONCE)
        assert_close_runs(tmp_path / f"{kind}-begun", tmp_path / "one")
    here, total = elements(output)
    assert total == here[0] + here[1]
    assert max(here) < 0.52 * total


@pytest.mark.slow
@pytest.mark.parametrize("sharding", ["none", "full"])
@pytest.mark.parametrize("parts", [1, 2])
def test_what_one_process_began_two_end(tmp_path: Path, parts: int, sharding: str) -> None:
    training = replace(TRAINING_ONCE, accumulation=parts)
    alone(tmp_path / "one", training)
    torchrun({begun(tmp_path / "one", 6): sharding}, training)
    assert_close_runs(tmp_path / "one-begun", tmp_path / "one")


@pytest.mark.slow
@pytest.mark.parametrize("sharding", ["none", "full"])
def test_what_is_not_finite_in_one_process_is_skipped_by_both(tmp_path: Path, sharding: str) -> None:
    torchrun({tmp_path: sharding}, replace(TRAINING_ONCE, steps=5), 3)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows if "skipped" in row] == [3]
    assert [row["step"] for row in rows if "loss" in row] == [1, 2, 4, 5]


@pytest.mark.slow
@pytest.mark.parametrize(("processes", "parts"), [(2, 2), (4, 1)])
def test_shards_train_the_model_that_one_process_trains(tmp_path: Path, processes: int, parts: int) -> None:
    training = replace(TRAINING_ONCE, steps=50, accumulation=parts)
    alone(tmp_path / "one", training)
    output = torchrun({tmp_path / "shards": "full"}, training, processes=processes)
    assert_close_runs(tmp_path / "shards", tmp_path / "one")
    here, total = elements(output)
    assert sum(here) == total
    assert max(here) < 1.1 * total / processes


@pytest.mark.slow
def test_four_processes_begin_one_goes_on_and_two_end(tmp_path: Path) -> None:
    alone(tmp_path / "one", TRAINING_ONCE)
    torchrun({tmp_path / "run": "full"}, replace(TRAINING_ONCE, steps=14), processes=4)
    alone(begun(tmp_path / "run", 4), TRAINING_ONCE)
    assert_close_runs(tmp_path / "run-begun", tmp_path / "one")
    torchrun({begun(tmp_path / "run-begun", 10): "full"}, TRAINING_ONCE)
    assert_close_runs(tmp_path / "run-begun-begun", tmp_path / "one")


@pytest.mark.slow
@pytest.mark.parametrize("sharding", ["none", "full"])
def test_torchrun_starts_again_after_a_kill(tmp_path: Path, sharding: str) -> None:
    training = replace(TRAINING_ONCE, steps=60)
    alone(tmp_path / "one", training)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", "--max-restarts=2"]
    command += [str(SCRIPT), "distributed", str(tmp_path / "killed"), "60", "1", str(DROPOUT), sharding]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as torchrun:
        try:
            wait_for_lines(tmp_path / "killed" / "metrics.jsonl", 12)
            # The last process is no owner of the folder, the first is: either may die.
            os.kill(children_of(torchrun.pid)[-1 if sharding == "full" else 0], signal.SIGKILL)
            output, errors = torchrun.communicate(timeout=300)
        finally:
            torchrun.kill()
    assert torchrun.returncode == 0, errors
    assert output.count("attempt 1, threads left by gloo") == 2
    assert_close_runs(tmp_path / "killed", tmp_path / "one")


def wait_for_lines(path: Path, count: int) -> None:
    """Until a file has so many lines."""
    until = time.monotonic() + 120
    while not path.exists() or path.read_text().count("\n") < count:
        assert time.monotonic() < until
        time.sleep(0.02)


def children_of(process: int) -> list[int]:
    """The processes that a process has started."""
    listing = subprocess.run(["ps", "-eo", "pid=,ppid="], check=True, capture_output=True, text=True).stdout
    pairs = (map(int, line.split()) for line in listing.splitlines())
    return sorted(pid for pid, parent in pairs if parent == process)


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
