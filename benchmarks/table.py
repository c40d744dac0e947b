"""A table of measured times, and how times, ratios and shares are written in it."""

from collections.abc import Sequence
from typing import NamedTuple

from benchmarks.timing import Json

NOTHING = "–"


class Table(NamedTuple):
    """What is shown, as text."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]

    def markdown(self) -> str:
        """The rows as a Markdown table; numbers to the right."""
        rule = ["---"] + ["---:"] * (len(self.columns) - 1)
        return "\n".join("| " + " | ".join(cells) + " |" for cells in (self.columns, rule, *self.rows)) + "\n"


def best(times: Json, who: str, what: str) -> float | None:
    """Seconds of the best repetition; None if it was not measured."""
    return float(times[who][what]["best"]) if who in times and what in times[who] else None


def milliseconds(seconds: float | None) -> str:
    """Three significant digits."""
    return NOTHING if seconds is None else f"{1e3 * seconds:.3g}" if seconds < 1 else f"{1e3 * seconds:.0f}"


def microseconds(seconds: float | None) -> str:
    """Three significant digits."""
    return milliseconds(None if seconds is None else 1e3 * seconds)


def ratio(slower: float | None, faster: float | None, digits: int = 1) -> str:
    """How many times as fast."""
    return NOTHING if slower is None or faster is None else f"{slower / faster:.{digits}f} ×"


def share(flop: int, seconds: float | None, peak: float) -> float | None:
    """Per cent of the peak."""
    return None if seconds is None else 100 * flop / seconds / peak


def share_of(part: float | None, whole: float | None) -> float | None:
    return None if part is None or whole is None else 100 * part / whole


def percent(value: float | None) -> str:
    return NOTHING if value is None else f"{value:.0f} %"


def pair(first: str, second: str) -> str:
    return NOTHING if first == second == NOTHING else f"{first} / {second}"
