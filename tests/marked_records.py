"""Records of runs that answer at marked steps, as if they had been made."""

from collections.abc import Mapping
from typing import Any

from fastweights.experiments.families import codec
from fastweights.runs.record import Record
from fastweights.training.run import Run


def record(run: Run, accuracies: Mapping[str, Mapping[str, float]], **measured: Any) -> Record:
    """What a run with these accuracies would have left."""
    loss = 1 - next(iter(accuracies.values()))["all"]
    result = {"best_loss": loss, "last_loss": loss, "steps": 100, "stopped_because": "limit", "seconds": 7.0}
    curve: dict[str, list[float | None]] = {"step": [100], "loss": [loss]}
    return Record(codec().to_plain(run), {**result, "accuracies": accuracies, **measured}, curve, {})
