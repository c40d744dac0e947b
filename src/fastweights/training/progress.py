"""How far a run has come: the counters that a checkpoint keeps beside the tensors, and how fast it goes."""

import math
import time
from collections import deque
from dataclasses import asdict, dataclass, field, fields
from typing import Any

from fastweights.config import PLAIN
from fastweights.runs.checkpoint import CheckpointError

ADDED = {"evaluations_since_best": 0}
"""Counters that checkpoints of version 0.1 do not have, and what they were then."""


@dataclass
class TrainingProgress:
    """Updates made, losses not yet logged, the best evaluation, and how long it all took."""

    step: int = 0
    recent_losses: list[float | None] = field(default_factory=list)
    """Losses that no line of metrics has counted yet; None for one that was not finite."""
    last_loss: float | None = None
    skipped_in_a_row: int = 0
    evaluated_step: int = 0
    valid_loss: float | None = None
    """The loss of the last evaluation; None if there was none or if it was not finite."""
    best_step: int | None = None
    best_loss: float | None = None
    evaluations_since_best: int = 0
    seconds: float = 0.0
    core_seconds: float = 0.0
    """Those of all cores together that this process had, which other processes on the machine do not lengthen."""
    metrics_bytes: int = 0

    def to_plain(self) -> dict[str, Any]:
        """Plain data that `from_plain` reads back, to the last bit."""
        return asdict(self) | {"last_loss": finite(self.last_loss)}

    @classmethod
    def from_plain(cls, plain: dict[str, Any], source: str) -> "TrainingProgress":
        """The progress in a checkpoint's state.json."""
        plain = ADDED | {"core_seconds": plain.get("seconds")} | plain
        names = {f.name for f in fields(cls)}
        if not names <= plain.keys():
            raise CheckpointError(f"{source}: state.json lacks {', '.join(sorted(names - plain.keys()))}")
        try:
            return PLAIN.from_plain(cls, {name: plain[name] for name in names})
        except ValueError as error:
            raise CheckpointError(f"{source}: state.json is not what a run writes ({error})") from error

    def mean_recent_loss(self) -> float | None:
        """The mean of the losses since this was last asked; not a number if one of them was not finite."""
        losses, self.recent_losses = self.recent_losses, []
        known = [loss for loss in losses if loss is not None]
        if len(known) < len(losses):
            return math.nan
        return sum(known) / len(known) if known else None

    def note_loss(self, loss: float) -> None:
        """Count a step that went well."""
        self.recent_losses.append(finite(loss))
        self.last_loss, self.skipped_in_a_row = loss, 0

    def note_evaluation(self, loss: float | None) -> bool:
        """Note a validation loss, None if it is not finite; True if it is the best so far."""
        self.evaluated_step, self.valid_loss = self.step, loss
        better = loss is not None and (self.best_loss is None or loss < self.best_loss)
        if better:
            self.best_step, self.best_loss = self.step, loss
        self.evaluations_since_best = 0 if better else self.evaluations_since_best + 1
        return better


def finite(value: float | None) -> float | None:
    """The value, or None if it is not finite: JSON has no word for that."""
    return value if value is not None and math.isfinite(value) else None


class Stopwatch:
    """Measures units and steps per second over the last steps."""

    def __init__(self, window: int = 50) -> None:
        self.laps: deque[tuple[float, int]] = deque(maxlen=window + 1)

    def lap(self, units: int) -> None:
        """Note the end of a step that processed `units` units."""
        self.laps.append((time.monotonic(), units))

    def restart(self) -> None:
        """Measure from here on: what came before, such as an evaluation, does not count."""
        self.laps.clear()
        self.lap(0)

    def units_per_second(self) -> float:
        """The rate over the window; 0 before the first step."""
        units = sum(units for _, units in self.laps) - (self.laps[0][1] if self.laps else 0)
        return units * self.steps_per_second() / (len(self.laps) - 1) if len(self.laps) > 1 else 0.0

    def steps_per_second(self) -> float:
        """Steps over the window; 0 before the first one."""
        if len(self.laps) < 2:
            return 0.0
        return (len(self.laps) - 1) / max(self.laps[-1][0] - self.laps[0][0], 1e-9)
