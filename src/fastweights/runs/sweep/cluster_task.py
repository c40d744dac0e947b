"""What a worker of a Dask cluster does: run after run, in a process beside it and in folders that do not stay."""

import contextlib
import json
import os
import platform
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

from fastweights.runs.sweep.local import close, end_input, send, start_worker, worker_command

SECONDS_BETWEEN_EVENTS = 1.0
"""How often a run's progress goes through the scheduler."""


_own = threading.local()
"""The process of each thread of a worker."""


def versions() -> dict[str, str]:
    """What has to be the same on both sides for the same records."""
    # torch's own version says whether it is a build for a CPU or a GPU, which may differ.
    torch, python = version("torch").partition("+")[0], ".".join(platform.python_version_tuple()[:2])
    return {"fastweights": version("fastweights"), "torch": torch, "python": python}


def differences(here: Mapping[str, str], there: Mapping[str, str]) -> str:
    """Which versions differ, in words; empty if none does."""
    odd = [name for name in here if here[name] != there.get(name)]
    return ", ".join(f"{name} is {there.get(name)} there and {here[name]} here" for name in odd)


def perform(
    function: str, title: str, request: str, topic: str, name: str, key: str, expected: Mapping[str, str]
) -> str:
    """Carry out a run and return JSON: its `record`, why it `failed`, or the exit code if its process `died`."""
    from distributed import get_worker

    worker = get_worker()
    if odd := differences(expected, versions()):
        return json.dumps({"failed": f"the worker {worker.address} differs from the driver: {odd}"})

    def is_wanted() -> bool:
        task = worker.state.tasks.get(key)
        return task is not None and task.state in ("executing", "long-running")

    def tell(event: Mapping[str, Any]) -> None:
        worker.log_event(topic, [name, json.dumps(event)])

    tell({"event": "started"})
    return json.dumps(run_apart(function, title, request, name, is_wanted, tell))


def run_apart(
    function: str,
    title: str,
    request: str,
    name: str,
    is_wanted: Callable[[], bool],
    tell: Callable[[Mapping[str, Any]], None],
) -> dict[str, Any]:
    """Carry out a run in another process: random numbers and threads of torch belong to a whole process."""
    process, done = _process_of_this_thread(function, title), threading.Event()
    watch = threading.Thread(target=_end_when_unwanted, args=(process, is_wanted, done), daemon=True)
    with tempfile.TemporaryDirectory(prefix="fastweights-") as folder:
        watch.start()
        try:
            with contextlib.suppress(BrokenPipeError, ValueError):
                send(process, request, folder)
            outcome = _follow(process, Path(folder), name, tell)
        finally:
            done.set()
            watch.join()
        if outcome is None:
            close(process)
        return {"died": process.returncode} if outcome is None else outcome


def _process_of_this_thread(function: str, title: str) -> "subprocess.Popen[str]":
    """A process that this thread uses for one run after the other, so that torch is imported once."""
    command = worker_command(function, title)
    process: subprocess.Popen[str] | None = getattr(_own, "process", None)
    if process is not None and (process.poll() is not None or process.args != command):
        close(process)
        process = None
    if process is None:
        process = _own.process = start_worker(command, {"OMP_NUM_THREADS": "1"} | os.environ)
    return process


def _follow(
    process: "subprocess.Popen[str]", folder: Path, name: str, tell: Callable[[Mapping[str, Any]], None]
) -> dict[str, Any] | None:
    """Pass events on, not too many, until the run has ended; None if its process did before that."""
    told = 0.0
    assert process.stdout is not None
    for line in process.stdout:
        event: dict[str, Any] = json.loads(line)
        match event["event"]:
            case "progress" if time.monotonic() - told > SECONDS_BETWEEN_EVENTS:
                told = time.monotonic()
                tell(event)
            case "finished":
                return {"record": (folder / "records" / f"{name}.json").read_text(encoding="utf-8")}
            case "failed":
                return {"failed": event["message"]}
            case "taken":  # it was asked to stop
                return None
    return None


def _end_when_unwanted(process: "subprocess.Popen[str]", is_wanted: Callable[[], bool], done: threading.Event) -> None:
    """Tell the process to end once the driver has gone, or has no use for the run any more."""
    while not done.wait(0.5):
        if not is_wanted():
            end_input(process)
            return
