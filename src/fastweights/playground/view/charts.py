"""Small charts as SVG inside a page, in the colours of its text, so that they follow light and dark."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 480, 220
LEFT, RIGHT, TOP, BOTTOM = 62, 12, 14, 38
LINES = ("", "7 4", "2 3", "9 3 2 3")
"""Dashes, so that lines are told apart without colour."""


@dataclass(frozen=True)
class Line:
    """Points of one line; `colour` is one of the style sheet's `fw-line-0`, `fw-line-1`, … or `fw-bound`."""

    label: str
    points: Sequence[tuple[float, float]]
    colour: str
    dashes: str = ""


def bars(values: Sequence[float], description: str) -> str:
    """One bar for each number, all from zero."""
    largest = max([*values, 1e-30])
    width = WIDTH / max(len(values), 1)
    shapes = "".join(
        f'<rect x="{i * width + 1:.1f}" y="{100 - 96 * value / largest:.1f}" width="{max(width - 2, 1):.1f}" '
        f'height="{96 * value / largest:.1f}"/>'
        for i, value in enumerate(values)
    )
    return (
        f'<svg class="fw-bars" viewBox="0 0 {WIDTH} 100" preserveAspectRatio="none" role="img" '
        f'aria-label="{escape(description)}">{shapes}</svg>'
    )


def lines(
    drawn: Sequence[Line],
    x_label: str,
    y_label: str,
    description: str,
    *,
    top: float | None = None,
    marks: Sequence[tuple[float, str]] = (),
) -> str:
    """A chart of lines from zero; `marks` are upright lines with a label."""
    points = [point for line in drawn for point in line.points if math.isfinite(point[1])]
    most_x = max([x for x, _ in points] + [x for x, _ in marks] + [1.0])
    most_y = max([y for _, y in points] + [1e-9]) * 1.05 if top is None else top

    def place(x: float, y: float) -> tuple[float, float]:
        inside = min(max(y, 0.0), most_y)
        return LEFT + (WIDTH - LEFT - RIGHT) * x / most_x, HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * inside / most_y

    parts = [_frame(place, most_x, most_y, x_label, y_label)]
    for x, label in marks:
        at, _ = place(x, 0)
        anchor = "end" if at > WIDTH * 0.7 else "start"
        parts.append(f'<line class="fw-mark" x1="{at:.1f}" x2="{at:.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}"/>')
        shift = -4 if anchor == "end" else 4
        parts.append(f'<text x="{at + shift:.1f}" y="{TOP + 9}" text-anchor="{anchor}">{escape(label)}</text>')
    for line in drawn:
        corners = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in line.points if math.isfinite(y))
        parts.append(f'<polyline class="{line.colour}" stroke-dasharray="{line.dashes}" points="{corners}"/>')
    legend = "".join(
        f'<li><svg viewBox="0 0 30 8" aria-hidden="true"><line class="{line.colour}" stroke-dasharray="{line.dashes}" '
        f'x1="0" x2="30" y1="4" y2="4"/></svg>{escape(line.label)}</li>'
        for line in drawn
    )
    return (
        f'<figure class="fw-chart"><svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(description)}">'
        f'{"".join(parts)}</svg><ul class="fw-legend">{legend}</ul></figure>'
    )


def _frame(place, most_x: float, most_y: float, x_label: str, y_label: str) -> str:  # type: ignore[no-untyped-def]
    """Axes with three ticks each."""
    parts = []
    for share in (0.0, 0.5, 1.0):
        x, y = most_x * share, most_y * share
        across, _ = place(x, 0)
        _, up = place(0, y)
        parts.append(f'<line class="fw-grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{up:.1f}" y2="{up:.1f}"/>')
        parts.append(f'<text x="{LEFT - 6}" y="{up + 4:.1f}" text-anchor="end">{y:.3g}</text>')
        parts.append(f'<text x="{across:.1f}" y="{HEIGHT - BOTTOM + 15}" text-anchor="middle">{x:.3g}</text>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<text x="{middle}" y="{HEIGHT - 6}" text-anchor="middle">{escape(x_label)}</text>')
    parts.append(
        f'<text transform="translate(15 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>"
    )
    return "".join(parts)
