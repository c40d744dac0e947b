"""Numbers and short texts inside a page."""

import math
from html import escape

from fastweights.playground.keys import COLOURS

SMALLEST = 5e-7
"""What is smaller is rounding, and shown as 0."""
LONGEST = 300
"""Characters of a message that are shown."""
ERROR = '<span class="fw-whole">|v̂ − v| / |v|</span>'
"""The error of what is retrieved, as a formula that no line end breaks."""


def number(value: float | None, name: str, digits: int = 4) -> str:
    """A number for readers, with all its digits for programs in `data-value`; a dash where it is not defined."""
    if value is None or not math.isfinite(value):
        return f'<span data-name="{escape(name)}" data-value="">–</span>'
    shown = "0" if abs(value) < SMALLEST else f"{value:.{digits}g}"
    return f'<span data-name="{escape(name)}" data-value="{value!r}">{shown.replace("-", "−")}</span>'


def decimals(value: float, name: str) -> str:
    """The same with two decimals, for tables whose numbers stand below each other."""
    return f'<span data-name="{escape(name)}" data-value="{value!r}">{value:.2f}</span>'.replace(">-", ">−")


def share(value: float, name: str) -> str:
    """A share in per cent, with all its digits for programs."""
    return f'<span data-name="{escape(name)}" data-value="{value!r}">{value:.0%}</span>'


def dot(colour: str) -> str:
    """The colour of a key."""
    return f'<span class="fw-dot" style="background:{COLOURS[colour]}" aria-hidden="true"></span>'


def scrolling(title: str, table: str, kind: str = "") -> str:
    """A table that scrolls inside its own frame where it is wider than the page; `title` is already escaped."""
    frame = f'class="fw-scroll {kind}" tabindex="0" role="region" aria-label="{title}"'
    return f"<div {frame}><table>{table}</table></div>"


def problem(message: str) -> str:
    """What cannot be shown, and why; a message may quote what a stranger sent, at any length and in no encoding."""
    line = message if len(message) <= LONGEST else f"{message[:LONGEST]} …"
    line = line.encode("utf-8", "backslashreplace").decode("utf-8")
    return f'<p class="fw-problem" role="alert">{escape(line)}</p>'
