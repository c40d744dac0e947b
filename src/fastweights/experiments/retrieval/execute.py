"""Carrying out one run of the synthetic experiments in a directory of its own (Sec. 6.1).

    config.json  environment.json  metrics.jsonl (a line per evaluation)  result.json (when it is done)
    checkpoint.safetensors (while it is not)

Data and random features are pure functions of (seed, step), so a run that was killed goes on from its checkpoint and
ends with the same numbers, bit for bit, as one that ran through.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from fastweights.experiments.retrieval.evaluation import PUBLISHED, TEXT, EvaluationProtocol
from fastweights.experiments.retrieval.config import MODELS, PROTOCOLS, RULES, RetrievalRun, preset
from fastweights.experiments.retrieval.task import Progress, Training, remove_checkpoint
from fastweights.runs.source_commit import source_commit
from fastweights.experiments.retrieval.model import FastWeightRead, SoftmaxRead
from fastweights.runs.environment import Environment
from fastweights.runs.record import read_json, write_text

__all__ = [
    "MODELS",
    "PROTOCOLS",
    "PUBLISHED",
    "RULES",
    "TEXT",
    "EvaluationProtocol",
    "FastWeightRead",
    "RetrievalRun",
    "SoftmaxRead",
    "execute",
    "preset",
]

CHECKPOINT = "checkpoint.safetensors"
SECONDS_BETWEEN_SAVES = 20.0
STEPS_BETWEEN_SAVES = 1_000
SECONDS_BETWEEN_REPORTS = 1.0

OnProgress = Callable[[int, float, float], None]


def execute(
    run: RetrievalRun,
    directory: Path,
    *,
    on_progress: OnProgress | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> dict[str, Any]:
    """Carry a run to its end in `directory`, from its checkpoint if there is one, and return its result.

    A directory where the run is finished gives its result at once. `on_progress` gets the step, the last loss (before
    the first evaluation: of training) and steps per second, about once a second. When `should_stop` says so, a
    checkpoint is written and the result so far returned, with "interrupted" as the reason and no result.json.
    """
    _claim(run, directory)
    if (directory / "result.json").exists():
        result = read_json(directory / "result.json")
        remove_checkpoint(directory / CHECKPOINT)
        return result
    with single_thread():
        training = Training(run)
        if (checkpoint := directory / CHECKPOINT).exists():
            training.load(checkpoint)
        write_text(directory / "metrics.jsonl", _lines(training.progress.curve))
        reason = _train(training, directory, on_progress, should_stop)
        if reason == "interrupted":
            training.save(checkpoint)
            return _result(training.progress, reason)
    # Whole and in place before there is a result, even if the last line was cut off by a crash.
    write_text(directory / "metrics.jsonl", _lines(training.progress.curve))
    result = _result(training.progress, reason)
    write_text(directory / "result.json", json.dumps(result, indent=1, allow_nan=False) + "\n")
    remove_checkpoint(checkpoint)
    return result


def _claim(run: RetrievalRun, directory: Path) -> None:
    """Make the directory that of this run; refuse one that is another's."""
    if directory.exists() and not directory.is_dir():
        raise ValueError(f"{directory}: is a file, a directory is needed")
    directory.mkdir(parents=True, exist_ok=True)
    config = directory / "config.json"
    if config.exists():
        if read_json(config) != run.to_dict():
            raise ValueError(f"{config}: belongs to another run; use another directory, or delete this one")
    else:
        write_text(config, json.dumps(run.to_dict(), indent=1, allow_nan=False) + "\n")
    if not (directory / "environment.json").exists():
        with single_thread():
            environment = {**asdict(Environment.here()), "commit": source_commit()}
        write_text(directory / "environment.json", json.dumps(environment, indent=1) + "\n")


def _train(
    training: Training,
    directory: Path,
    on_progress: OnProgress | None,
    should_stop: Callable[[], bool] | None,
) -> str:
    """Train until there is a reason to stop; write metrics and checkpoints on the way."""
    run, progress = training.run, training.progress
    begun = time.monotonic() - progress.seconds
    saved_step, saved_time = told_step, told_time = progress.step, time.monotonic()
    while (reason := progress.reason_to_stop(run)) is None:
        if should_stop is not None and should_stop():
            return "interrupted"
        evaluations = len(progress.curve)
        training.advance()
        now = time.monotonic()
        progress.seconds = now - begun
        if len(progress.curve) > evaluations:
            with (directory / "metrics.jsonl").open("a", encoding="utf-8") as file:
                file.write(_lines(progress.curve[-1:]))
        if now - saved_time > SECONDS_BETWEEN_SAVES or progress.step - saved_step >= STEPS_BETWEEN_SAVES:
            training.save(directory / CHECKPOINT)
            saved_step, saved_time = progress.step, now
        if on_progress is not None and now - told_time >= SECONDS_BETWEEN_REPORTS:
            on_progress(progress.step, progress.current_loss, (progress.step - told_step) / (now - told_time))
            told_step, told_time = progress.step, now
    return reason


def _result(progress: Progress, reason: str) -> dict[str, Any]:
    """What became of a run; losses that were not finite are null."""
    best_loss, best_step = progress.best()
    return {
        "best_loss": best_loss,
        "best_step": best_step,
        "last_loss": progress.last(),
        "steps": progress.step,
        "stopped_because": reason,
        "protocols": {
            name: {
                "best_loss": progress.best(name)[0],
                "best_step": progress.best(name)[1],
                "last_loss": progress.last(name),
            }
            for name in PROTOCOLS
        },
        "seconds": round(progress.seconds, 3),
    }


def _lines(rows: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(row, allow_nan=False) + "\n" for row in rows)


@contextmanager
def single_thread() -> Iterator[None]:
    """One thread of torch inside: sweeps run processes side by side, and sums are then always added in one order."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
