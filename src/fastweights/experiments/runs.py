"""Runs and their records: carrying one run to its record, and finding the records of given runs."""

import math
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from fastweights.experiments.retrieval.execute import MODELS, PUBLISHED, RULES, RetrievalRun, execute, preset
from fastweights.experiments.retrieval.outcomes import Outcome, Outcomes
from fastweights.runs.record import (
    Record,
    exclusive,
    read_records,
    record_of_directory,
    record_path,
    run_directory,
    write_text,
)

Records = Mapping[RetrievalRun, Record]


def name_of(run: RetrievalRun) -> str:
    """The name of a run's directory and record: readable, and different for any other configuration."""
    return f"{run.slug}-{run.digest}"


def load(results: Path) -> dict[RetrievalRun, Record]:
    """The records of a results folder by the run that each one records."""
    records = {}
    for path, record in read_records(results).items():
        try:
            records[RetrievalRun.from_dict(record.config)] = record
        except ValueError as error:
            raise ValueError(f"{path}: corrupted record, {error}") from error
    return records


def missing(runs: Iterable[RetrievalRun], results: Path) -> list[RetrievalRun]:
    """Those of the runs that have no record yet, each once."""
    records = load(results)
    return [run for run in dict.fromkeys(runs) if run not in records]


def carry_out(
    run: RetrievalRun,
    results: Path,
    *,
    on_progress: Callable[[int, float, float], None] | None = None,
    should_stop: Callable[[], bool] | None = None,
) -> Record | None:
    """Run to the end, from where an earlier attempt stopped, and write the record.

    None if there is no record to write: another process is at it, or `should_stop` ended it early.
    """
    directory, path = run_directory(results, name_of(run)), record_path(results, name_of(run))
    with exclusive(directory) as owned:
        if not owned:
            return None
        result = execute(run, directory, on_progress=on_progress, should_stop=should_stop)
        if result["stopped_because"] == "interrupted":
            return None
        record = record_of_directory(directory)
        write_text(path, record.to_json())
        return record


def serve(
    config: dict[str, Any],
    results: Path,
    should_stop: Callable[[], bool],
    emit: Callable[[dict[str, Any]], None],
) -> None:
    """Carry out the run of a worker's request and tell the sweep how it goes."""

    def on_progress(step: int, loss: float, steps_per_second: float) -> None:
        emit({"event": "progress", "step": step, "loss": loss, "steps_per_second": steps_per_second})

    record = carry_out(RetrievalRun.from_dict(config), results, on_progress=on_progress, should_stop=should_stop)
    if record is None:
        emit({"event": "taken"})
    else:
        emit({"event": "finished", "result": record.result})


def outcomes(records: Records) -> Outcomes:
    """How the runs of the paper's figures ended; runs that differ from those in anything are left out."""
    found = []
    for run, record in records.items():
        names = names_in_figures(run)
        if names is not None:
            found.append(outcome(run, record, *names))
    return Outcomes(tuple(sorted(found, key=lambda o: (o.setting, o.model, o.rule, o.num_keys, o.seed))))


def names_in_figures(run: RetrievalRun) -> tuple[str, str] | None:
    """The model and the rule that the figures call this run, if it is exactly as they need it."""
    for model in MODELS:
        for rule in ("none",) if model == "softmax" else RULES:
            if preset(run.setting, model, rule, run.num_keys, run.seed, PUBLISHED) == run:
                return model, rule
    return None


def outcome(run: RetrievalRun, record: Record, model: str, rule: str) -> Outcome:
    """The end and the curve of one run, from its record."""
    result, curve = record.result, record.curve
    return Outcome(
        setting=run.setting,
        model=model,
        rule=rule,
        num_keys=run.num_keys,
        seed=run.seed,
        best=number(result["best_loss"]),
        last=number(result["last_loss"]),
        steps=result["steps"],
        key_dim=run.key_dim,
        stopped_because=str(result.get("stopped_because", "")),
        finite=all(loss is not None for loss in curve.get("loss", [])),
        best_by_text=number(result["protocols"]["text"]["best_loss"]),
        curve=tuple(
            (int(number(step)), number(loss))
            for step, loss in zip(curve.get("step", []), curve.get("loss", []), strict=True)
        ),
    )


def number(value: float | None) -> float:
    """A loss of a record, where null stands for one that was not finite."""
    return math.nan if value is None else value
