"""Small charts as SVG inside a page, in the colours of its text, so that they follow light and dark."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape

WIDTH, HEIGHT = 480, 220
LEFT, RIGHT, TOP, BOTTOM = 66, 12, 14, 42
MARK = 17
"""Height of a mark's label, above the lines."""
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
    """A chart of lines from zero; `marks` are upright lines with a label. What is above `top` is only named."""
    points = [point for line in drawn for point in line.points if math.isfinite(point[1])]
    most_x = max([x for x, _ in points] + [x for x, _ in marks] + [1.0])
    most_y = max([y for _, y in points] + [1e-9]) * 1.05 if top is None else top
    leaves = f"above {most_y:g} a line goes on outside of the chart" if any(y > most_y for _, y in points) else ""
    above = TOP + MARK * len(marks)

    def place(x: float, y: float) -> tuple[float, float]:
        return LEFT + (WIDTH - LEFT - RIGHT) * x / most_x, above + (HEIGHT - TOP - BOTTOM) * (1 - y / most_y)

    height = HEIGHT + above - TOP
    parts = [_frame(place, ticks(most_x), ticks(most_y)), _names(x_label, y_label, above, height)]
    for row, (x, label) in enumerate(marks):
        at, _ = place(x, 0)
        y = TOP + MARK * row
        parts.append(f'<line class="fw-mark" x1="{at:.1f}" x2="{at:.1f}" y1="{y}" y2="{height - BOTTOM}"/>')
        anchor, shift = ("end", -5) if at > WIDTH * 0.7 else ("start", 5)
        parts.append(f'<text x="{at + shift:.1f}" y="{y + 9}" text-anchor="{anchor}">{escape(label)}</text>')
    # An <svg> inside an <svg> shows nothing beyond its edges; three units more keep lines at zero whole.
    wide, high = WIDTH - LEFT - RIGHT + 3, HEIGHT - TOP - BOTTOM + 3
    box = f'x="{LEFT}" y="{above}" width="{wide}" height="{high}" viewBox="{LEFT} {above} {wide} {high}"'
    parts.append(f"<svg {box}>")
    parts += [_line(place, line) for line in drawn]
    return (
        f'<figure class="fw-chart"><svg viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{escape(description)}">'
        f"{''.join(parts)}</svg></svg>{_legend(drawn, leaves)}</figure>"
    )


def ticks(most: float) -> list[float]:
    """Round numbers from zero up to at most `most`, three to six of them."""
    power = 10.0 ** math.floor(math.log10(most))
    step = next(step for step in (0.25 * power, 0.5 * power, power, 2 * power, 2.5 * power) if most / step < 5.5)
    return [step * count for count in range(math.floor(most / step + 1e-9) + 1)]


Place = Callable[[float, float], tuple[float, float]]
"""From numbers to a place in the chart."""


def _line(place: Place, line: Line) -> str:
    corners = " ".join("{:.1f},{:.1f}".format(*place(x, y)) for x, y in line.points if math.isfinite(y))
    return f'<polyline class="{line.colour}" stroke-dasharray="{line.dashes}" points="{corners}"/>'


def _legend(drawn: Sequence[Line], note: str) -> str:
    entries = "".join(
        f'<li><svg viewBox="0 0 30 8" aria-hidden="true"><line class="{line.colour}" stroke-dasharray="{line.dashes}" '
        f'x1="0" x2="30" y1="4" y2="4"/></svg>{escape(line.label)}</li>'
        for line in drawn
    )
    return f'<ul class="fw-legend">{entries}{f"<li>{note}</li>" if note else ""}</ul>'


def _frame(place: Place, across: Sequence[float], up: Sequence[float]) -> str:
    """A line for every number on the left, and the numbers of both axes."""
    parts = []
    for number in up:
        _, y = place(0, number)
        parts.append(f'<line class="fw-grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{LEFT - 8}" y="{y + 4.5:.1f}" text-anchor="end">{number:.6g}</text>')
    for number in across:
        x, y = place(number, 0)
        parts.append(f'<text x="{x:.1f}" y="{y + 17:.1f}" text-anchor="middle">{number:.6g}</text>')
    return "".join(parts)


def _names(x_label: str, y_label: str, above: int, height: int) -> str:
    """What the axes are."""
    return (
        f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{height - 6}" text-anchor="middle">{escape(x_label)}</text>'
        f'<text transform="translate(15 {(above + height - BOTTOM) / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>"
    )
