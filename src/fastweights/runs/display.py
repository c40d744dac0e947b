"""How runs go, for people: one line or a table that renews itself on a terminal, a line every few seconds elsewhere."""

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

PLAIN_INTERVAL = 10.0
"""Seconds between lines where there is no terminal."""

Forms = Callable[[float], dict[str, float]]
"""Other forms of a loss that people read, by name."""


@dataclass(frozen=True)
class RunStatus:
    """How far a run is, as its loop reports it."""

    step: int
    steps: int
    epoch: int
    loss: float
    units_per_second: float
    steps_per_second: float
    seconds_left: float | None
    valid_loss: float | None


class Display:
    """Shows the newest status; quiet unless it is given a console."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(quiet=True)
        self.printed, self.live = -math.inf, None  # type: float, Live | None
        self.unit = "step"
        self.forms: Forms = lambda loss: {}
        self.valid_forms: Forms = self.forms

    @classmethod
    def on_terminal(cls, quiet: bool = False) -> "Display":
        """A display on standard output."""
        return cls(Console(highlight=False, quiet=quiet))

    def shows(self, unit: str, forms: Forms, valid_forms: Forms | None = None) -> "Display":
        """Count speed in a unit, and show losses in their other forms as well, such as a perplexity."""
        self.unit, self.forms, self.valid_forms = unit, forms, valid_forms or forms
        return self

    @contextmanager
    def shown(self) -> Iterator[None]:
        """Show progress while the block runs."""
        if not self.console.is_terminal or self.live is not None:
            yield
            return
        with Live(Text(""), console=self.console, refresh_per_second=4, transient=True) as self.live:
            try:
                yield
            finally:
                self.live = None

    def update(self, status: RunStatus) -> None:
        """Show where a training run is."""
        last = status.step == status.steps
        if self.live is None and not last and time.monotonic() - self.printed <= PLAIN_INTERVAL:
            return
        parts = [f"step {status.step}/{status.steps} (epoch {status.epoch + 1})", f"loss {status.loss:.4f}"]
        parts += [f"{name} {value:.1f}" for name, value in self.forms(status.loss).items()]
        if status.valid_loss is not None:
            forms = [f"{name} {value:.1f}" for name, value in self.valid_forms(status.valid_loss).items()]
            parts += [f"valid {form}" for form in forms or [f"loss {status.valid_loss:.4f}"]]
        if status.units_per_second:
            parts.append(f"{status.units_per_second:,.0f} {self.unit}s/s")
        if status.seconds_left is not None:
            parts.append(f"{duration(status.seconds_left)} left")
        self._show("  ".join(parts), last)

    def count(self, done: int, total: int) -> None:
        """Show how far an evaluation is."""
        self._show(f"{done:,} of {total:,} {self.unit}s scored", last=False)

    def reads(self, what: str) -> Callable[[int, int], None]:
        """Something to tell how many bytes of how many have been read: shown with the rate and the time left."""
        began = time.monotonic()
        # Nothing is said about what takes a moment only.
        self.printed = max(self.printed, began)

        def show(done: int, total: int) -> None:
            rate = done / max(time.monotonic() - began, 1e-9)
            left = duration((total - done) / rate) if rate else "?"
            self._show(f"{what}: {100 * done / total:.0f} %  {rate / 1e6:.1f} MB/s  {left} left", last=False)

        return show

    def say(self, line: str) -> None:
        """Print one line that stays; as Text, because a path might look like markup."""
        self.console.print(Text(line), soft_wrap=True)

    def _show(self, line: str, last: bool) -> None:
        if self.live is not None:
            self.live.update(Text(line, no_wrap=True, overflow="ellipsis"))
        elif last or time.monotonic() - self.printed > PLAIN_INTERVAL:
            self.say(line)
            self.printed = time.monotonic()


@dataclass
class Running:
    """A run at work, as far as its process has reported."""

    name: str
    work: float = 0.0
    """About how long the whole run takes, in the unit of the sweep."""
    step: int = 0
    steps: int = 1
    loss: float | None = None
    steps_per_second: float = 0.0
    began_at: int | None = None
    """The first step that was reported: a run that was resumed has done the others before."""

    @property
    def worked(self) -> float:
        """How much of its work is done."""
        return self.work * self.step / self.steps

    @property
    def gained(self) -> float:
        """How much of it was done while this sweep was watching."""
        return self.work * (self.step - (self.began_at or 0)) / self.steps

    def describe(self) -> str:
        """Where the run is, in words."""
        if self.loss is None:
            return f"{self.name} starting"
        return f"{self.name} step {self.step}/{self.steps} loss {self.loss:.4g} ({self.steps_per_second:.3g} steps/s)"


@dataclass(eq=False)
class SweepDisplay:
    """Shows the runs of a sweep. The threads of its workers write to it, the main thread shows it."""

    total: int
    done: int
    work: float
    console: Console = field(default_factory=lambda: Console(highlight=False))
    running: dict[str, Running] = field(default_factory=dict)
    worked: float = 0.0
    """Work of the runs that have their record by now."""
    gained: float = 0.0
    """The part of it that was done since this sweep began."""
    lock: threading.RLock = field(default_factory=threading.RLock)
    live: Live | None = None

    def __post_init__(self) -> None:
        self.started = self.printed = time.monotonic()

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
        """Add a run that has begun."""
        with self.lock:
            self.running[name] = running

    def update(self, name: str, step: int, steps: int, loss: float | None, steps_per_second: float) -> None:
        """Note where a run is."""
        with self.lock:
            before = self.running[name]
            began_at = step if before.began_at is None else before.began_at
            self.running[name] = Running(before.name, before.work, step, steps, loss, steps_per_second, began_at)

    def drop(self, name: str) -> None:
        """Remove a run that is not at work any more, and not done either."""
        with self.lock:
            self.running.pop(name, None)

    def finish(self, name: str, result: dict[str, Any] | None, work: float) -> None:
        """Count a run that has its record; `result` is missing if another sweep wrote it."""
        with self.lock:
            running = self.running.pop(name, None)
            self.done += 1
            self.worked += work
            self.gained += work if running is None else work - (running.worked - running.gained)
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
        """Print one line that stays; as Text, because a name might look like markup."""
        self.printed = time.monotonic()
        self.console.print(Text(line), soft_wrap=True)

    def summary(self) -> str:
        """One line about all runs."""
        return f"{self.done} of {self.total} runs done, {self.time_left()}"

    def time_left(self) -> str:
        """Estimate from how much work was done since the sweep began and how much is left; good to a factor of two."""
        with self.lock:
            worked = self.worked + sum(running.worked for running in self.running.values())
            gained = self.gained + sum(running.gained for running in self.running.values())
        if gained <= 0:
            return "time left not known yet"
        elapsed = time.monotonic() - self.started
        return f"about {duration(elapsed * max(self.work - worked, 0) / gained)} left"

    def render(self) -> RenderableType:
        """The table of runs at work under one line about all of them."""
        table = Table(box=None, pad_edge=False)
        for column, justify in (("run", "left"), ("step", "right"), ("loss", "right"), ("steps/s", "right")):
            table.add_column(column, justify=justify, style=None)  # type: ignore[arg-type]
        with self.lock:
            for running in self.running.values():
                loss = "starting" if running.loss is None else f"{running.loss:.4g}"
                step, rate = f"{running.step}/{running.steps}", f"{running.steps_per_second:.3g}"
                table.add_row(Text(running.name), step, loss, rate)
            return Group(Text(self.summary(), style="bold"), table)


def ending(result: dict[str, Any]) -> str:
    """How a run ended, in a few words."""
    if result["steps"] == 0:
        return f"measured in {duration(result.get('seconds', 0.0))}"
    best = result["best_loss"]
    loss = "no finite loss" if best is None else f"best loss {best:.4g}"
    return f"{loss}, {result['steps']} steps, {result.get('stopped_because', 'finished')}"


def number(loss: float) -> str:
    """A loss with as many digits as mean something."""
    if loss != loss:
        return "not a number"
    return f"{loss:.3f}" if loss >= 0.01 else f"{loss:.2g}"


def duration(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 5400:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
