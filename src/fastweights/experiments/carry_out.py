"""Carrying runs of any family to their records: one here, or many in a sweep."""

import json
import platform
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from fastweights.experiments.families import codec
from fastweights.experiments.records import missing
from fastweights.files import Json
from fastweights.runs.directory import InUseError
from fastweights.runs.display import Display, RunStatus
from fastweights.runs.record import Record, run_folder, write_record
from fastweights.runs.signals import end_process
from fastweights.runs.sweep.cluster import ClusterAddress, DaskCluster
from fastweights.runs.sweep.local import LocalProcesses
from fastweights.runs.sweep.plan import Executor, Job, sweep
from fastweights.training.config import CheckpointPolicy
from fastweights.training.distributed import Processes
from fastweights.training.execute import Execution
from fastweights.training.run import Run
from fastweights.training.task import Interrupted, Task

POLICY = CheckpointPolicy(save_every_seconds=120.0, when_not_finite="skip")
SMALL_RUNS = CheckpointPolicy(save_every_seconds=20.0, keep_best=False, when_not_finite="continue")
"""For runs of which only the curve is wanted, a model that breaks included."""


def carry_out(
    run: Run,
    results: Path,
    *,
    data: str | None = None,
    task: Task[Any] | None = None,
    processes: Processes = Processes(),  # noqa: B008  a frozen value
    display: Display | None = None,
    interrupted: Interrupted = lambda: False,
) -> Record | None:
    """Carry a run to its end from wherever it was and write its record; None if another process holds its lock.

    A signal raises KeyboardInterrupt or SystemExit, `interrupted` raises Stopped; the training so far is saved.
    """
    policy = POLICY if run.task.keeps_model else SMALL_RUNS
    task = task or run.task.open(run.training, data)
    display = (display or Display()).shows(task.unit, task.shown, task.shown_validation)
    execution = Execution(codec(), processes, policy, display, interrupted)
    name = codec().name(run)
    folder = run_folder(results, name)
    try:
        with display.shown():
            record, ending = execution.record(run, task, folder)
    except InUseError:
        return None
    if ending is not None and not ending.finished:
        if ending.signal is not None:
            display.say(f"{run.slug}: stopped after step {ending.progress.step}, all of it saved")
            end_process(ending.signal)
        raise Stopped
    if record is not None:
        write_record(results, name, record)
    processes.broadcast(0)
    return record


class Stopped(Exception):  # noqa: N818  not an error
    """A run was interrupted by its caller, and saved."""


def serve(request: Json, results: Path, interrupted: Interrupted, emit: Callable[[Json], None]) -> None:
    """Carry out the run of a worker's request and report to the sweep."""
    display = _Reporting(emit)
    data = request["data"]
    if data is not None and Path(data).is_absolute() and not Path(data).exists():
        raise ValueError(f"data: {data} is not on {platform.node()}; every machine of a sweep needs it at this place")
    try:
        record = carry_out(
            codec().from_plain(request["run"]), results, data=data, display=display, interrupted=interrupted
        )
    except Stopped:
        record = None
    if record is None:
        emit({"event": "taken"})
        return
    # Another sweep may have ended the run between the request and the lock: then it is that sweep's to report.
    here = display.trained or record.result["steps"] == 0
    emit({"event": "finished", "result": record.result if here else None})


class _Reporting(Display):
    """A display that passes the status of a run on."""

    def __init__(self, emit: Callable[[Json], None]) -> None:
        super().__init__()
        self.emit, self.trained = emit, False

    def update(self, status: RunStatus) -> None:
        self.trained = True
        loss = status.loss if status.valid_loss is None else status.valid_loss
        rate = status.steps_per_second
        told = {"step": status.step, "steps": status.steps, "loss": loss, "steps_per_second": rate}
        self.emit({"event": "progress", **told})


def sweep_runs(
    runs: Iterable[Run],
    results: Path,
    *,
    jobs: int,
    title: str,
    data: str | None = None,
    cluster: ClusterAddress | None = None,
) -> None:
    """Carry out the runs that have no record, in `jobs` processes side by side or on the workers of a cluster."""
    function = f"{__name__}:serve"
    executor: Executor = LocalProcesses(jobs, function, title)
    if cluster is not None:
        executor = DaskCluster(cluster, function, title)
        # Workers start in other folders than this process.
        data = str(Path(data).resolve()) if data is not None and Path(data).exists() else data
    runs = list(dict.fromkeys(runs))
    waiting = missing(runs, results)
    sweep([job_of(run, data) for run in waiting], results, executor, done=len(runs) - len(waiting))


def job_of(run: Run, data: str | None = None) -> Job:
    """A run as a job of a sweep."""
    request = json.dumps({"run": codec().to_plain(run), "data": data}, allow_nan=False)
    return Job(codec().name(run), run.slug, request, run.task.cost(run.training))


def train_in_turn(
    runs: Sequence[Run], results: Path, *, data: str | None, processes: Processes, display: Display
) -> None:
    """Carry out those of the runs that have no record one after the other in this process, or in those of torchrun."""
    wanted = {codec().name(run) for run in missing(runs, results)} if processes.first else set()
    for run in runs:
        if not processes.broadcast(codec().name(run) in wanted):
            continue
        display.say(f"{run.slug}: {run_folder(results, codec().name(run))}")
        try:
            done = carry_out(run, results, data=data, processes=processes, display=display)
        except FloatingPointError as error:
            display.say(f"{run.slug}: {error}")
            continue
        if processes.first:
            display.say(f"{run.slug}: done" if done else f"{run.slug}: left to the process that holds its lock")
