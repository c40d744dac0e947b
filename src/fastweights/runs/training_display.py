"""How training goes, for people: one line that renews itself on a terminal, a line every few seconds elsewhere."""

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.live import Live
from rich.text import Text

from fastweights.runs.display import duration
from fastweights.training.progress import Progress

PLAIN_INTERVAL = 10.0
"""Seconds between lines where there is no terminal."""


class TrainingDisplay:
    """Shows the newest of what it is told."""

    def __init__(self, unit: str, *, quiet: bool = False, console: Console | None = None) -> None:
        self.unit, self.console = unit, console or Console(highlight=False, quiet=quiet)
        self.line, self.printed = Text(""), -math.inf
        self.live: Live | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show progress while the block runs."""
        if not self.console.is_terminal:
            yield
            return
        with Live(self.line, console=self.console, refresh_per_second=4, transient=True) as self.live:
            yield
        self.live = None

    def update(self, progress: Progress) -> None:
        """Show where a training run is."""
        parts = [
            f"step {progress.step}/{progress.steps} (epoch {progress.epoch + 1})",
            f"loss {progress.loss:.4f}",
            f"perplexity {exp(progress.loss):.1f}",
        ]
        if progress.valid_loss is not None:
            parts.append(f"valid perplexity {exp(progress.valid_loss):.1f}")
        if progress.tokens_per_second:
            parts.append(f"{progress.tokens_per_second:,.0f} {self.unit}s/s")
        if progress.seconds_left is not None:
            parts.append(f"{duration(progress.seconds_left)} left")
        self._show("  ".join(parts), last=progress.step == progress.steps)

    def count(self, done: int, total: int) -> None:
        """Show how far an evaluation is."""
        self._show(f"{done:,} of {total:,} {self.unit}s scored", last=False)

    def say(self, line: str) -> None:
        """One line that stays; as Text, because a path might look like markup."""
        self.console.print(Text(line), soft_wrap=True)

    def _show(self, line: str, last: bool) -> None:
        self.line = Text(line, no_wrap=True, overflow="ellipsis")
        if self.live is not None:
            self.live.update(self.line)
        elif last or time.monotonic() - self.printed > PLAIN_INTERVAL:
            self.say(line)
            self.printed = time.monotonic()


def exp(loss: float) -> float:
    """Perplexity, infinite where a float cannot hold it."""
    return math.exp(loss) if loss < 700 else math.inf
