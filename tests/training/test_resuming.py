"""Runs as processes: killed, stopped, out of space, side by side."""

import contextlib
import json
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tiny_run import TRAINING, train

from fastweights.runs.checkpoint import newest_checkpoint

SCRIPT = Path(__file__).with_name("tiny_run.py")
A_HANG = 600
"""Seconds: nothing here takes that long, however busy the machine is."""


def run(*arguments: object, timeout: int | None = A_HANG) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, str(SCRIPT), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=timeout)


def newest(path: Path) -> dict[str, bytes]:
    folder = max((path / "checkpoints").glob("step-??????"))
    return {name: (folder / f"{name}.safetensors").read_bytes() for name in ("model", "optim", "carried")}


def reference(path: Path, steps: int) -> None:
    train(path, replace(TRAINING, steps=steps))


def assert_same_run(found: Path, expected: Path) -> None:
    """Every logged loss, every weight, moment and memory, to the last bit."""
    assert (found / "metrics.jsonl").read_bytes() == (expected / "metrics.jsonl").read_bytes()
    assert newest(found) == newest(expected)


@pytest.mark.parametrize("kills", [5, pytest.param(200, marks=pytest.mark.slow)])
def test_killed_at_random_moments_every_loss_is_the_same(tmp_path: Path, kills: int) -> None:
    steps = 4 * kills
    # Each life has a time limit of its own; how long all of them take depends on what else the machine does.
    done = run("kill", tmp_path / "killed", kills, steps, timeout=None)
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout.splitlines()[-1])
    assert len(report["lines_at_kill"]) == kills
    assert report["lines_at_kill"][-1] > 2
    assert report["status"] == 0
    reference(tmp_path / "whole", steps)
    assert_same_run(tmp_path / "killed", tmp_path / "whole")


def start(path: Path, steps: int) -> "subprocess.Popen[str]":
    command = [sys.executable, str(SCRIPT), "train", str(path), str(steps)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def newest_step(path: Path) -> int:
    return max((int(folder.name[5:]) for folder in (path / "checkpoints").glob("step-??????")), default=0)


def wait_for(condition: "object") -> None:
    until = time.monotonic() + A_HANG
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < until, f"it did not happen within {A_HANG} seconds"
        time.sleep(0.001)


def test_sigterm_during_a_save_ends_with_a_complete_checkpoint(tmp_path: Path) -> None:
    folder = tmp_path / "run" / "checkpoints"
    process = start(tmp_path / "run", 3000)
    # The folder of an unfinished checkpoint: the process is inside the save at this very moment.
    wait_for(lambda: folder.is_dir() and len(list(folder.glob("step-*"))) > 1 and list(folder.glob("*.tmp-*")))
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=A_HANG)
    assert process.returncode == 128 + signal.SIGTERM, errors
    assert not list(folder.glob("*.tmp-*"))
    step = newest_step(tmp_path / "run")
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert lines[-1]["step"] == step


def test_a_second_process_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    first = start(tmp_path / "run", 3000)
    wait_for(lambda: (tmp_path / "run" / "metrics.jsonl").exists())
    second = run("train", tmp_path / "run", 3000)
    assert second.returncode != 0
    assert f"in use by another process ({first.pid})" in second.stderr.splitlines()[-1]
    assert first.poll() is None
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=A_HANG)
    assert first.returncode == 128 + signal.SIGINT


@pytest.mark.slow
def test_a_full_disk_leaves_the_last_good_checkpoint_and_one_line(tmp_path: Path) -> None:
    reference(tmp_path / "whole", TRAINING.steps)
    path = tmp_path / "run"
    largest = max(len(content) for content in newest(tmp_path / "whole").values())
    # Even the first checkpoint does not fit; later, only the metrics do not.
    for size in (largest - 1, largest // 2, 600):
        full = run("limited", path, size)
        assert full.returncode == 1
        assert len(full.stdout.splitlines()) == 1
        assert "File too large" in full.stdout
        assert not list((path / "checkpoints").glob("*.tmp-*"))
    with_space = run("train", path, TRAINING.steps)
    assert with_space.returncode == 0, with_space.stderr
    assert_same_run(path, tmp_path / "whole")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 1 MB, where the tests may mount one."""
    place = tmp_path / "small"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a file system is not allowed here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def test_a_disk_that_fills_up_while_training(small_disk: Path) -> None:
    path, filler = small_disk / "run", small_disk / "filler"
    process = start(path, 3000)
    wait_for(lambda: len(list((path / "checkpoints").glob("step-??????"))) > 1)
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(512))
    _, errors = process.communicate(timeout=A_HANG)
    assert process.returncode == 1
    assert "No space left on device" in errors.splitlines()[-1]
    assert "untouched; run the same command again to resume" in errors.splitlines()[-1]
    found = newest_checkpoint(path / "checkpoints")
    assert not found.damaged
    assert found.checkpoint is not None
    filler.unlink()
    again = start(path, 3000)
    wait_for(lambda: newest_step(path) > found.checkpoint.step)
    again.send_signal(signal.SIGTERM)
    again.communicate(timeout=A_HANG)
    assert again.returncode == 128 + signal.SIGTERM


def test_a_folder_that_became_read_only_is_one_line_and_nothing_is_lost() -> None:
    # Not under pytest's own folder, which nobody else may enter.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run"
        reference(path, TRAINING.steps)
        before = newest(path)
        Path(folder).chmod(0o755)
        for file in [path, *path.rglob("*")]:
            file.chmod(0o555 if file.is_dir() else 0o444)
        found = run("unprivileged", path)
        for file in [path, *path.rglob("*")]:
            file.chmod(0o755)
        assert found.returncode == 1, found.stderr
        assert found.stdout.splitlines() == [f"{path}: cannot write the run here (Permission denied)"]
        assert newest(path) == before
