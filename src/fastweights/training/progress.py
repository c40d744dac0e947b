"""Where a run is: the counters that a checkpoint keeps beside the tensors."""

import time
from dataclasses import asdict, dataclass, fields
from typing import Any

from fastweights.runs.checkpoint import CheckpointError
from fastweights.config import VALUES


@dataclass
class Journal:
    """Updates made, losses not yet logged, the best evaluation, and how long it all took."""

    step: int = 0
    recent_losses: tuple[float, ...] = ()
    last_loss: float | None = None
    skipped_in_a_row: int = 0
    evaluated_step: int = 0
    valid_loss: float | None = None
    best_step: int | None = None
    best_loss: float | None = None
    seconds: float = 0.0
    metrics_bytes: int = 0

    def to_plain(self) -> dict[str, Any]:
        """What `from_plain` reads back, to the last bit."""
        return asdict(self)

    @classmethod
    def from_plain(cls, plain: dict[str, Any], source: str) -> "Journal":
        """The journal in a checkpoint's state.json."""
        names = {f.name for f in fields(cls)}
        if not names <= plain.keys():
            raise CheckpointError(f"{source}: state.json lacks {', '.join(sorted(names - plain.keys()))}")
        try:
            return VALUES.from_plain(cls, {name: plain[name] for name in names})
        except ValueError as error:
            raise CheckpointError(f"{source}: state.json is not what a run writes ({error})") from error

    def mean_recent_loss(self) -> float | None:
        """The mean of the losses since this was last asked."""
        losses, self.recent_losses = self.recent_losses, ()
        return sum(losses) / len(losses) if losses else None

    def note_loss(self, loss: float) -> None:
        """A step that went well."""
        self.recent_losses = (*self.recent_losses, loss)
        self.last_loss, self.skipped_in_a_row = loss, 0

    def note_evaluation(self, loss: float | None) -> bool:
        """Whether this validation loss is the best so far."""
        self.evaluated_step, self.valid_loss = self.step, loss
        better = loss is not None and (self.best_loss is None or loss < self.best_loss)
        if better:
            self.best_step, self.best_loss = self.step, loss
        return better


@dataclass(frozen=True)
class Progress:
    """What a display shows."""

    step: int
    steps: int
    epoch: int
    loss: float
    tokens_per_second: float
    seconds_left: float | None
    valid_loss: float | None


class Stopwatch:
    """Tokens per second over the last steps, and seconds since an event."""

    def __init__(self, window: int = 50) -> None:
        self.window = window
        self.laps: list[tuple[float, int]] = []

    def lap(self, tokens: int) -> None:
        """Note the end of a step that processed so many tokens."""
        self.laps = [*self.laps[-self.window :], (time.monotonic(), tokens)]

    def pause(self) -> None:
        """Do not count what happens until the next lap: evaluation, saving."""
        self.laps = []

    def tokens_per_second(self) -> float:
        """The rate over the window; 0 before there are two laps."""
        if len(self.laps) < 2:
            return 0.0
        return sum(tokens for _, tokens in self.laps[1:]) / max(self.laps[-1][0] - self.laps[0][0], 1e-9)
