"""A worker answers in events alone, survives what its runs do, and ends when its sweep does."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fastweights.runs.sweep.worker import GRACE


@pytest.fixture
def worker() -> Iterator["subprocess.Popen[str]"]:
    command = [sys.executable, "-m", "fastweights.runs.sweep.worker", "odd_jobs:serve", "title"]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(__file__).parent)},
    )
    with process:
        yield process
        process.kill()


def ask(worker: "subprocess.Popen[str]", do: str, results: Path = Path()) -> None:
    assert worker.stdin is not None
    worker.stdin.write(json.dumps({"run": json.dumps({"do": do}), "results": str(results)}) + "\n")
    worker.stdin.flush()


def answer(worker: "subprocess.Popen[str]") -> dict[str, Any]:
    assert worker.stdout is not None
    return json.loads(worker.stdout.readline())


def test_one_worker_serves_many_runs(worker: "subprocess.Popen[str]") -> None:
    for _ in range(2):
        ask(worker, "return")
        assert answer(worker)["event"] == "progress"
        assert answer(worker) == {"event": "finished", "result": {"best_loss": 0.25, "steps": 1}}
    assert worker.stdin is not None
    worker.stdin.close()
    assert worker.wait(60) == 0


def test_nothing_that_a_run_prints_mixes_with_the_events(worker: "subprocess.Popen[str]") -> None:
    ask(worker, "print")
    assert answer(worker)["event"] == "finished"
    _, errors = worker.communicate(timeout=60)
    assert "not an event" in errors
    assert "nor this" in errors


def test_a_run_that_fails_leaves_the_worker_alive(worker: "subprocess.Popen[str]") -> None:
    for do, message in (("raise", "ValueError: one clear line"), ("overflow", "FloatingPointError: not finite")):
        ask(worker, do)
        assert answer(worker) == {"event": "failed", "message": message}
    ask(worker, "print")
    assert answer(worker)["event"] == "finished"


def test_the_end_of_the_input_asks_the_run_at_work_to_stop(worker: "subprocess.Popen[str]", tmp_path: Path) -> None:
    ask(worker, "wait", tmp_path)
    assert answer(worker)["event"] == "progress"
    assert worker.stdin is not None
    worker.stdin.close()
    assert worker.wait(60) == 0
    assert (tmp_path / "stopped").exists()


def test_a_run_that_does_not_stop_is_ended_after_a_while(worker: "subprocess.Popen[str]") -> None:
    ask(worker, "hang")
    assert answer(worker)["event"] == "progress"
    assert worker.stdin is not None
    start = time.monotonic()
    worker.stdin.close()
    assert worker.wait(60) == 1
    assert time.monotonic() - start >= GRACE - 0.5


def test_ctrl_c_is_left_to_the_sweep(worker: "subprocess.Popen[str]") -> None:
    ask(worker, "return")
    assert answer(worker)["event"] == "progress"
    assert answer(worker)["event"] == "finished"
    worker.send_signal(signal.SIGINT)
    ask(worker, "print")
    assert answer(worker)["event"] == "finished"
