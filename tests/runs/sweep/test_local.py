"""Sweeps: side by side, killed at any moment, given again, given twice at once.

This also tests experiments/carry_out.py, which is what a sweep carries out.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import small_sweep

from fastweights.experiments.carry_out import Stopped, carry_out, sweep_runs
from fastweights.experiments.families import codec
from fastweights.experiments.records import load, missing
from fastweights.files import exclusive, write_whole
from fastweights.runs.checkpoint import newest_checkpoint
from fastweights.runs.record import record_path, run_folder
from fastweights.runs.sweep.local import ATTEMPTS, LocalProcesses
from fastweights.runs.sweep.plan import Job, sweep

PROGRAM = Path(small_sweep.__file__)


def start(results: Path, steps: int = 1000, count: int = 10) -> "subprocess.Popen[str]":
    """A small sweep in a process group of its own."""
    return subprocess.Popen(
        [sys.executable, PROGRAM, results, str(steps), str(count)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )


def finish(process: "subprocess.Popen[str]") -> str:
    output, _ = process.communicate(timeout=300)
    assert process.returncode == 0, output
    return output


def contents(results: Path) -> dict[str, Any]:
    """Every record, without what depends on the machine and the clock."""
    found = {}
    for path in sorted((results / "records").iterdir()):
        record = json.loads(path.read_text(encoding="utf-8"))
        del record["environment"], record["result"]["seconds"], record["result"]["core_seconds"]
        found[path.name] = record
    return found


def workers_of(group: int) -> list[int]:
    """Processes of a group other than its leader."""
    listing = subprocess.run(["ps", "-eo", "pid=,pgid="], check=True, capture_output=True, text=True).stdout
    pairs = (map(int, line.split()) for line in listing.splitlines())
    return [pid for pid, pgid in pairs if pgid == group and pid != group]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a small sweep that nobody disturbed."""
    results = tmp_path_factory.mktemp("whole results")
    finish(start(results))
    return results


@pytest.mark.slow
def test_every_run_gets_a_record_and_is_not_run_again(whole: Path) -> None:
    assert set(load(whole)) == set(small_sweep.runs())
    before = {path: path.stat().st_mtime_ns for path in (whole / "records").iterdir()}
    sweep_runs(small_sweep.runs(), whole, jobs=2, title="again")
    assert {path: path.stat().st_mtime_ns for path in (whole / "records").iterdir()} == before


def lines_of(results: Path) -> int:
    """Lines of metrics that all runs together have written."""
    return sum(file.read_text(encoding="utf-8").count("\n") for file in results.glob("runs/*/metrics.jsonl"))


def wait_for_a_moment(process: "subprocess.Popen[str]", results: Path, dice: random.Random) -> None:
    """Until some more lines are written and a little longer, or for a time that may end before the first one."""
    until = lines_of(results) + dice.choice([0, 1, 2, 3, 4])
    while lines_of(results) < until and process.poll() is None:
        time.sleep(0.002)
    time.sleep(dice.uniform(0, 1.5) if until == 0 else dice.uniform(0, 0.1))


def kill_something(process: "subprocess.Popen[str]", dice: random.Random) -> str | None:
    """kill -9 the sweep, one of its workers or all of them; what was hit, if anything."""
    if process.poll() is not None:
        return None
    victims = workers_of(process.pid)
    match dice.choice(["sweep", "everything", "worker"]):
        case "sweep":
            process.kill()
            return "sweep"
        case "everything":
            os.killpg(process.pid, signal.SIGKILL)
            return "sweep"
        case "worker" if victims:
            os.kill(dice.choice(victims), signal.SIGKILL)
            return "worker"
    return None


@pytest.mark.parametrize(
    ("kills", "steps", "count"),
    [
        pytest.param(2, 200, 4, marks=pytest.mark.slow),
        pytest.param(20, 1000, 10, marks=pytest.mark.slow),
    ],
)
def test_killed_at_random_moments_a_sweep_ends_with_the_same_records(
    tmp_path: Path, kills: int, steps: int, count: int
) -> None:
    dice, results, hits = random.Random(1), tmp_path / "results", 0
    process = start(results, steps, count)
    while hits < kills:
        wait_for_a_moment(process, results, dice)
        assert process.poll() is None, f"it ended before it was killed {kills} times, after {hits}"
        hit = kill_something(process, dice)
        hits += hit is not None
        # A sweep survives the death of a worker, but not its own.
        if hit == "sweep":
            process.wait()
            # At once: workers that the killed one left behind may still be ending.
            assert process.stdout is not None
            process.stdout.close()
            process = start(results, steps, count)
    finish(process)
    for run in small_sweep.runs(steps, count):
        carry_out(run, tmp_path / "whole")
    assert len(contents(results)) == count
    assert contents(results) == contents(tmp_path / "whole")
    for file in results.glob("runs/*/metrics.jsonl"):
        rows = [json.loads(line)["step"] for line in file.read_text(encoding="utf-8").splitlines()]
        assert rows == list(range(50, steps + 1, 50))


@pytest.mark.slow
def test_two_sweeps_on_one_folder_share_the_work(whole: Path, tmp_path: Path) -> None:
    both = [start(tmp_path), start(tmp_path)]
    outputs = [finish(process) for process in both]
    assert contents(tmp_path) == contents(whole)
    done = [line for output in outputs for line in output.splitlines() if "best loss" in line]
    assert len(done) == len(small_sweep.runs()), "each run was done once"


@pytest.mark.slow
def test_workers_end_with_the_sweep(tmp_path: Path) -> None:
    process = start(tmp_path, steps=1_000_000)
    while not list(tmp_path.glob("runs/*/config.json")):
        time.sleep(0.05)
    workers = workers_of(process.pid)
    assert workers
    command = ["ps", "-ww", "-o", "args=", "-p", str(workers[0])]
    listing = subprocess.run(command, check=True, capture_output=True, text=True)
    assert listing.stdout.rstrip().endswith(
        "fastweights.runs.sweep.worker fastweights.experiments.carry_out:serve small sweep"
    )
    process.kill()
    process.communicate()
    deadline = time.monotonic() + 300
    while workers_of(process.pid) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert workers_of(process.pid) == []


@pytest.mark.slow
def test_interrupting_leaves_a_checkpoint_and_no_worker(tmp_path: Path) -> None:
    process = start(tmp_path, steps=1_000_000)
    # Both workers: a run that has not made a step has nothing to save.
    while len(list(tmp_path.glob("runs/*/metrics.jsonl"))) < 2:
        time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does
    output, _ = process.communicate(timeout=300)
    assert process.returncode != 0
    assert "KeyboardInterrupt" in output
    assert workers_of(process.pid) == []
    directories = {path.parent for path in tmp_path.glob("runs/*/config.json")}
    unfinished = {path for path in directories if not (path / "result.json").exists()}
    assert all(newest_checkpoint(folder / "checkpoints").checkpoint is not None for folder in unfinished)


@pytest.mark.slow
def test_a_run_that_always_fails_does_not_stop_the_others(tmp_path: Path) -> None:
    good, bad = small_sweep.runs(steps=50)[:2]
    directory = run_folder(tmp_path, codec().name(bad))
    directory.mkdir(parents=True)
    (directory / "config.json").write_text("{")
    with pytest.raises(ValueError, match=rf"1 of 2 runs failed: {bad.slug}.*config.json: corrupted"):
        sweep_runs([bad, good], tmp_path, jobs=1, title="test")
    assert list(load(tmp_path)) == [good]


def test_a_corrupted_record_is_named(tmp_path: Path) -> None:
    run = small_sweep.runs()[0]
    path = record_path(tmp_path, codec().name(run))
    path.parent.mkdir()
    path.write_text('{"format": 1')
    with pytest.raises(ValueError, match=f"{path}: corrupted"):
        sweep_runs([run], tmp_path, jobs=1, title="test")


def test_a_results_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    with pytest.raises(ValueError, match="is a file"):
        sweep_runs(small_sweep.runs(), taken, jobs=1, title="test")
    with pytest.raises(ValueError, match="jobs must be at least 1, got 0"):
        sweep_runs(small_sweep.runs(), tmp_path, jobs=0, title="test")


def test_a_run_that_someone_else_owns_is_not_touched(tmp_path: Path) -> None:
    run = small_sweep.runs(steps=50)[0]
    with exclusive(run_folder(tmp_path, codec().name(run))) as owner:
        assert owner is None
        assert carry_out(run, tmp_path) is None
    assert missing([run, run], tmp_path) == [run]
    record = carry_out(run, tmp_path)
    assert record is not None
    assert record.result["steps"] == 50
    assert missing([run], tmp_path) == []
    assert load(tmp_path) == {run: record}


def test_a_run_that_is_stopped_leaves_no_record_and_goes_on_later(tmp_path: Path) -> None:
    run = small_sweep.runs(steps=60)[0]
    answers = iter([False] * 30 + [True])
    with pytest.raises(Stopped):
        carry_out(run, tmp_path / "a", interrupted=lambda: next(answers))
    assert not (tmp_path / "a" / "records").exists()
    resumed, through = carry_out(run, tmp_path / "a"), carry_out(run, tmp_path / "b")
    assert resumed is not None
    assert through is not None
    assert resumed.curve == through.curve


def odd_job(name: str, do: str) -> Job:
    return Job(f"{name}-0123", name, json.dumps({"do": do}), 1.0)


@pytest.fixture
def odd_jobs(monkeypatch: pytest.MonkeyPatch) -> LocalProcesses:
    """Workers that carry out jobs which may misbehave."""
    monkeypatch.setenv("PYTHONPATH", str(PROGRAM.parent))
    return LocalProcesses(1, "odd_jobs:serve", "odd jobs")


def test_a_run_that_kills_its_workers_is_given_up_and_the_others_go_on(
    tmp_path: Path, odd_jobs: LocalProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    jobs = [odd_job("deadly", "die"), odd_job("unlucky", "die once"), odd_job("good", "return")]
    message = rf"1 of 3 runs failed: deadly: its process ended {ATTEMPTS} times \(exit code 9\)"
    with pytest.raises(ValueError, match=message):
        sweep(jobs, tmp_path, odd_jobs)
    shown = capsys.readouterr().out
    assert "unlucky: best loss 0.25, 1 steps, finished" in shown
    assert "good: best loss 0.25, 1 steps, finished" in shown


def test_a_job_that_another_sweep_has_done_meanwhile_is_only_counted(
    tmp_path: Path, odd_jobs: LocalProcesses, capsys: pytest.CaptureFixture[str]
) -> None:
    job = odd_job("done", "die")
    write_whole(record_path(tmp_path, job.name), "{}")
    sweep([job], tmp_path, odd_jobs)
    assert "best loss" not in capsys.readouterr().out
