"""An executor of this machine: worker processes side by side, one thread each."""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fastweights.runs.display import Running, SweepDisplay
from fastweights.runs.signals import StopSignals, end_process
from fastweights.runs.sweep.plan import Job

ATTEMPTS = 5
"""Worker processes that one run may lose without making a step before it counts as failed."""
PAUSE = 0.5
"""Seconds before asking again for a run that another sweep is working on."""


@dataclass(frozen=True)
class LocalProcesses:
    """Runs jobs in `count` processes that call `function`, which is named as `module:function`."""

    count: int
    function: str
    title: str
    """The name of the workers in a list of processes."""

    def __post_init__(self) -> None:
        if self.count < 1:
            raise ValueError(f"jobs must be at least 1, got {self.count}")

    def __call__(self, jobs: Sequence[Job], results: Path, display: SweepDisplay) -> Mapping[str, str]:
        """Carry out the jobs; a signal ends the workers, which save checkpoints first, and then this process."""
        pool = WorkerPool(deque(jobs), results, display, worker_command(self.function, self.title))
        with StopSignals() as signals:
            with pool:
                pool.start(min(self.count, len(jobs)))
                # Short waits, so that signals get through.
                while pool.is_working and signals.received is None:
                    display.refresh()
                    time.sleep(0.1)
            if signals.received is not None:
                end_process(signals.received)
        return pool.failures


class WorkerPool:
    """Worker processes, and a thread for each that hands it runs and listens to it."""

    def __init__(self, waiting: "deque[Job]", results: Path, display: SweepDisplay, command: list[str]) -> None:
        self.waiting, self.results, self.display, self.command = waiting, results, display, command
        self.failures: dict[str, str] = {}
        self.deaths: dict[Job, int] = {}
        self.processes: set[subprocess.Popen[str]] = set()
        self.threads: list[threading.Thread] = []
        self.lock = threading.Lock()
        self.stopping = False

    def start(self, count: int) -> None:
        """Start a thread for each job slot, each with its own worker process."""
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    @property
    def is_working(self) -> bool:
        """True until every run is done or has failed."""
        return any(thread.is_alive() for thread in self.threads)

    def __enter__(self) -> "WorkerPool":
        return self

    def __exit__(self, *error: object) -> None:
        """End every worker; one that is at work saves a checkpoint first."""
        with self.lock:
            self.stopping = True
            processes = list(self.processes)
        for process in processes:
            end_input(process)
        for process in processes:
            process.wait()

    def work(self) -> None:
        """Hand out runs until none is left; a worker that dies is replaced and its run handed out again."""
        process = self.spawn()
        while process is not None and (job := self.take()) is not None:
            outcome = self.request(process, job)
            if outcome == "taken":
                with self.lock:
                    self.waiting.append(job)
                time.sleep(PAUSE)
            elif outcome == "died":
                self.bury(process, job)
                process = self.spawn()
        if process is not None:
            self.close(process)

    def take(self) -> Job | None:
        """The next run without a record, if any is left."""
        while True:
            with self.lock:
                if self.stopping or not self.waiting:
                    return None
                job = self.waiting.popleft()
            # Another sweep may have finished it meanwhile.
            if job.is_done(self.results):
                self.display.finish(job.name, None, job.cost)
            else:
                return job

    def request(self, process: "subprocess.Popen[str]", job: Job) -> str:
        """Send one run and follow it to its end: "finished", "failed", "taken" by someone else, or "died"."""
        assert process.stdout is not None
        try:
            send(process, job.request, self.results)
        except (BrokenPipeError, ValueError):
            return "died"
        self.display.start(job.name, Running(job.slug, job.cost))
        for line in process.stdout:
            event: dict[str, Any] = json.loads(line)
            match event.pop("event"):
                case "progress":
                    self.deaths.pop(job, None)
                    self.display.update(job.name, **event)
                case "finished":
                    self.display.finish(job.name, event["result"], job.cost)
                    return "finished"
                case "failed":
                    self.failures[job.slug] = event["message"]
                    self.display.drop(job.name)
                    return "failed"
                case "taken":
                    self.display.drop(job.name)
                    return "taken"
        self.display.drop(job.name)
        return "died"

    def bury(self, process: "subprocess.Popen[str]", job: Job) -> None:
        """Give the run of a dead worker to another, unless it seems to be the run that kills them."""
        self.close(process)
        if self.stopping:
            return
        deaths = self.deaths[job] = self.deaths.get(job, 0) + 1
        if deaths < ATTEMPTS:
            with self.lock:
                self.waiting.appendleft(job)
        else:
            self.failures[job.slug] = f"its process ended {deaths} times (exit code {process.returncode})"

    def spawn(self) -> "subprocess.Popen[str] | None":
        """Start a new worker, unless the sweep is ending; its arguments say what it belongs to."""
        with self.lock:
            if self.stopping:
                return None
            process = start_worker(self.command, os.environ | {"OMP_NUM_THREADS": "1"})
            self.processes.add(process)
        return process

    def close(self, process: "subprocess.Popen[str]") -> None:
        """Let a worker end and wait for it."""
        with self.lock:
            self.processes.discard(process)
        close(process)


def worker_command(function: str, title: str) -> list[str]:
    """What starts a process that calls `function`, which is named as `module:function`."""
    return [sys.executable, "-m", "fastweights.runs.sweep.worker", function, title]


def start_worker(command: list[str], environment: Mapping[str, str]) -> "subprocess.Popen[str]":
    """A process of our own module that is sent runs and tells events, each a line."""
    pipe, utf8 = subprocess.PIPE, {**environment, "PYTHONUTF8": "1"}
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, encoding="utf-8", env=utf8)  # noqa: S603


def send(process: "subprocess.Popen[str]", request: str, results: Path | str) -> None:
    """Send a worker one run."""
    assert process.stdin is not None
    process.stdin.write(json.dumps({"run": request, "results": str(results)}) + "\n")
    process.stdin.flush()


def close(process: "subprocess.Popen[str]") -> None:
    """Let a worker end and wait for it."""
    end_input(process)
    process.wait()
    assert process.stdout is not None
    process.stdout.close()


def end_input(process: "subprocess.Popen[str]") -> None:
    """Close a worker's standard input, which tells it that the sweep is over; it may be gone already."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError, ValueError):
        process.stdin.close()
