"""One display for a sweep: a live table on a terminal, a plain line every few seconds elsewhere."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

PLAIN_INTERVAL = 10.0
"""Seconds between lines where there is no terminal."""


@dataclass
class Running:
    """A run at work, as far as it has told."""

    name: str
    step: int = 0
    loss: float | None = None
    steps_per_second: float = 0.0

    def describe(self) -> str:
        """Where the run is, in words."""
        if self.loss is None:
            return f"{self.name} starting"
        return f"{self.name} step {self.step} loss {self.loss:.4g} ({self.steps_per_second:.0f} steps/s)"


class SweepProgress:
    """What the workers told so far. Their threads write to it, the main thread shows it."""

    def __init__(self, total: int, done: int, work: float, console: Console | None = None) -> None:
        self.total, self.done, self.work, self.worked = total, done, work, 0.0
        self.running: dict[str, Running] = {}
        self.console = console or Console(highlight=False)
        self.started = self.printed = time.monotonic()
        self.lock = threading.RLock()
        self.live: Live | None = None

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show progress while the block runs."""
        if not self.console.is_terminal:
            self.say(self.summary())
            yield
            return
        with Live(self.render(), console=self.console, refresh_per_second=4, transient=True) as self.live:
            yield

    def start(self, name: str, running: Running) -> None:
        with self.lock:
            self.running[name] = running

    def update(self, name: str, step: int, loss: float | None, steps_per_second: float) -> None:
        with self.lock:
            self.running[name] = Running(self.running[name].name, step, loss, steps_per_second)

    def drop(self, name: str) -> None:
        """The run is not at work any more, and not done either."""
        with self.lock:
            self.running.pop(name, None)

    def finish(self, name: str, result: dict[str, Any] | None, work: float) -> None:
        """The run has its record; `result` is missing if another sweep wrote it."""
        with self.lock:
            self.drop(name)
            self.done += 1
            self.worked += work
            if result is not None:
                self.say(f"{self.done}/{self.total} {name.rpartition('-')[0]}: {ending(result)}")

    def refresh(self) -> None:
        """Show the present state if it is time to."""
        if self.live is not None:
            self.live.update(self.render())
        elif time.monotonic() - self.printed > PLAIN_INTERVAL:
            with self.lock:
                states = [running.describe() for running in self.running.values()]
            self.say("; ".join([self.summary(), *states]))

    def say(self, line: str) -> None:
        """One line that stays; as Text, because a name might look like markup."""
        self.printed = time.monotonic()
        self.console.print(Text(line), soft_wrap=True)

    def summary(self) -> str:
        return f"{self.done} of {self.total} runs done, {self.time_left()}"

    def time_left(self) -> str:
        """From what the finished runs took and how much work is left; a guess, good to a factor of two."""
        if self.worked == 0:
            return "time left not known yet"
        elapsed = time.monotonic() - self.started
        return f"about {duration(elapsed * max(self.work - self.worked, 0) / self.worked)} left"

    def render(self) -> Group:
        """The table of runs at work under one line about all of them."""
        table = Table(box=None, pad_edge=False)
        for column, justify in (("run", "left"), ("step", "right"), ("loss", "right"), ("steps/s", "right")):
            table.add_column(column, justify=justify, style=None)  # type: ignore[arg-type]
        with self.lock:
            for running in self.running.values():
                loss = "starting" if running.loss is None else f"{running.loss:.4g}"
                table.add_row(Text(running.name), str(running.step), loss, f"{running.steps_per_second:.0f}")
            return Group(Text(self.summary(), style="bold"), table)


def ending(result: dict[str, Any]) -> str:
    """How a run ended, in a few words."""
    best = result["best_loss"]
    loss = "no finite loss" if best is None else f"best loss {best:.4g}"
    return f"{loss}, {result['steps']} steps, {result.get('stopped_because', 'finished')}"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
