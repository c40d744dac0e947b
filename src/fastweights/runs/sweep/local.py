"""A sweep: many runs side by side, one process per core, that can be killed at any moment and given again.

All that a sweep knows is on disk: a run is done when its record exists, and half done when its directory holds a
checkpoint. So giving the same command again goes on where the last one was, and two sweeps share the work.
"""

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any

from fastweights.experiments.retrieval.execute import FastWeightRead, RetrievalRun
from fastweights.experiments.runs import missing, name_of
from fastweights.runs.display import Running, SweepProgress
from fastweights.runs.record import check_results_folder
from fastweights.update_rules import LinearRule

ATTEMPTS = 5
"""Worker processes that one run may lose without making a step before it counts as failed."""
PAUSE = 0.5
"""Seconds before asking again for a run that another sweep is working on."""


def sweep(runs: Iterable[RetrievalRun], results: Path, *, jobs: int, title: str) -> None:
    """Carry out those of the runs that have no record; `title` is what a list of processes shows for the workers."""
    if jobs < 1:
        raise ValueError(f"jobs must be at least 1, got {jobs}")
    check_results_folder(results)
    runs = list(dict.fromkeys(runs))
    waiting = longest_first(missing(runs, results))
    progress = SweepProgress(total=len(runs), done=len(runs) - len(waiting), work=sum(map(cost, waiting)))
    if not waiting:
        return
    pool = Pool(deque(waiting), results, progress, title)
    with progress.shown(), pool:
        pool.start(min(jobs, len(waiting)))
        pool.wait()
    if pool.failures:
        failures = "; ".join(f"{name}: {message}" for name, message in pool.failures.items())
        raise ValueError(f"{len(pool.failures)} of {len(waiting)} runs failed: {failures}")


def longest_first(runs: list[RetrievalRun]) -> list[RetrievalRun]:
    """In this order no long run starts when the others are nearly done, to be waited for alone."""
    return sorted(runs, key=cost, reverse=True)


def cost(run: RetrievalRun) -> float:
    """About how long a run takes, in no particular unit: long ones start first, and time left is counted in it."""
    length = run.num_keys * (2 if run.setting == "overwriting" else 1)
    if not isinstance(run.attention, FastWeightRead):
        return float(run.batch_size * length * (run.key_dim + 200))
    features = run.attention.feature_map.feature_dim(run.key_dim)
    # Rules that are not linear run step by step.
    slowness = 1 if isinstance(run.attention.update_rule, LinearRule) else 40
    return float(run.batch_size * length * (features + 200) * slowness)


class Pool:
    """Worker processes, and a thread for each that hands it runs and listens to it."""

    def __init__(self, waiting: "deque[RetrievalRun]", results: Path, progress: SweepProgress, title: str) -> None:
        self.waiting, self.results, self.progress, self.title = waiting, results, progress, title
        self.failures: dict[str, str] = {}
        self.deaths: dict[RetrievalRun, int] = {}
        self.processes: set[subprocess.Popen[str]] = set()
        self.threads: list[threading.Thread] = []
        self.lock = threading.Lock()
        self.stopping = False

    def start(self, jobs: int) -> None:
        """Start so many threads, each with a worker process of its own."""
        self.threads = [threading.Thread(target=self.work, daemon=True) for _ in range(jobs)]
        for thread in self.threads:
            thread.start()

    def wait(self) -> None:
        """Until every run is done or has failed; short waits, so that Ctrl-C gets through."""
        while any(thread.is_alive() for thread in self.threads):
            self.progress.refresh()
            time.sleep(0.1)

    def __enter__(self) -> "Pool":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """End every worker; one that is at work saves a checkpoint first."""
        with self.lock:
            self.stopping = True
            processes = list(self.processes)
        for process in processes:
            end_input(process)
        for process in processes:
            process.wait()

    def work(self) -> None:
        """Hand out runs until none is left; a worker that dies is replaced and its run given again."""
        process = self.spawn()
        while process is not None and (run := self.take()) is not None:
            outcome = self.request(process, run)
            if outcome == "taken":
                self.give_back(run)
                time.sleep(PAUSE)
            elif outcome == "died":
                self.bury(process, run)
                process = self.spawn()
        if process is not None:
            self.close(process)

    def take(self) -> RetrievalRun | None:
        """The next run without a record, if any is left."""
        while True:
            with self.lock:
                if self.stopping or not self.waiting:
                    return None
                run = self.waiting.popleft()
            # Another sweep may have finished it meanwhile.
            if (self.results / "records" / f"{name_of(run)}.json").exists():
                self.progress.finish(name_of(run), None, cost(run))
            else:
                return run

    def give_back(self, run: RetrievalRun) -> None:
        with self.lock:
            self.waiting.append(run)

    def request(self, process: "subprocess.Popen[str]", run: RetrievalRun) -> str:
        """Ask for one run and follow it to its end: "finished", "failed", "taken" by someone else, or "died"."""
        assert process.stdin is not None
        assert process.stdout is not None
        name = name_of(run)
        try:
            process.stdin.write(json.dumps({"run": run.to_dict(), "results": str(self.results)}) + "\n")
            process.stdin.flush()
        except (BrokenPipeError, ValueError):
            return "died"
        self.progress.start(name, Running(run.slug))
        for line in process.stdout:
            event: dict[str, Any] = json.loads(line)
            match event.pop("event"):
                case "progress":
                    self.deaths.pop(run, None)
                    self.progress.update(name, **event)
                case "finished":
                    self.progress.finish(name, event["result"], cost(run))
                    return "finished"
                case "failed":
                    self.failures[run.slug] = event["message"]
                    self.progress.drop(name)
                    return "failed"
                case "taken":
                    self.progress.drop(name)
                    return "taken"
        self.progress.drop(name)
        return "died"

    def bury(self, process: "subprocess.Popen[str]", run: RetrievalRun) -> None:
        """Give the run of a dead worker to another, unless it seems to be the run that kills them."""
        self.close(process)
        if self.stopping:
            return
        deaths = self.deaths[run] = self.deaths.get(run, 0) + 1
        if deaths < ATTEMPTS:
            with self.lock:
                self.waiting.appendleft(run)
        else:
            self.failures[run.slug] = f"its process ended {deaths} times (exit code {process.returncode})"

    def spawn(self) -> "subprocess.Popen[str] | None":
        """A new worker, unless the sweep is ending; its arguments say what it belongs to."""
        command = [sys.executable, "-m", "fastweights.runs.sweep.worker", self.title]
        with self.lock:
            if self.stopping:
                return None
            process = subprocess.Popen(  # noqa: S603 - our own module, no outside input
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
                encoding="utf-8",
                env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "1"},
            )
            self.processes.add(process)
        return process

    def close(self, process: "subprocess.Popen[str]") -> None:
        """Let a worker end and wait for it."""
        with self.lock:
            self.processes.discard(process)
        end_input(process)
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def end_input(process: "subprocess.Popen[str]") -> None:
    """Close a worker's standard input, which is how it learns that the sweep is over; it may be gone already."""
    assert process.stdin is not None
    with contextlib.suppress(BrokenPipeError):
        process.stdin.close()
