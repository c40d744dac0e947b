"""Charts: points are where their numbers say."""

import re

import pytest

from fastweights.playground.view.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Line, bars, lines, ticks


def test_points_are_in_their_places() -> None:
    html = lines([Line("a", [(0, 0.0), (10, 2.0), (5, float("nan"))], "fw-line-0")], "x", "y", "a chart", top=2.0)
    found = re.search(r'<polyline[^>]* points="([^"]+)"', html)
    assert found is not None
    first, last = found[1].split(" ")
    assert first == f"{LEFT:.1f},{HEIGHT - BOTTOM:.1f}"
    assert last == f"{WIDTH - RIGHT:.1f},{TOP:.1f}"
    assert 'aria-label="a chart"' in html


def test_a_line_above_the_top_leaves_the_chart() -> None:
    html = lines([Line("a", [(0, 0.0), (10, 4.0)], "fw-line-0")], "x", "y", "a chart", top=2.0)
    inner = re.search(r'<svg x="([\d.]+)" y="([\d.]+)" width', html)
    assert inner is not None
    assert inner.groups() == (str(LEFT), str(TOP))
    assert html.index(inner[0]) < html.index("<polyline")
    assert f"{WIDTH - RIGHT:.1f},{TOP - (HEIGHT - TOP - BOTTOM):.1f}" in html


@pytest.mark.parametrize(("top", "said"), [(2.0, 1), (4.0, 0), (None, 0)])
def test_a_line_that_leaves_the_chart_is_named_below_it(top: float | None, said: int) -> None:
    html = lines([Line("a", [(0, 0.0), (10, 4.0)], "fw-line-0")], "x", "y", "a chart", top=top)
    assert html.count("<li>above 2 a line goes on outside of the chart</li>") == said


def test_labels_of_marks_stand_below_each_other_and_above_the_lines() -> None:
    html = lines([Line("a", [(20, 1.0)], "fw-line-0")], "x", "y", "d", marks=[(16, "d_dot"), (20, "S")])
    first, second = (float(y) for y in re.findall(r'y="([\d.]+)" text-anchor="\w+">(?:d_dot|S)<', html))
    top = re.search(r'<svg x="[\d.]+" y="([\d.]+)"', html)
    assert top is not None
    assert first + 13 <= second <= float(top[1])


@pytest.mark.parametrize(
    ("most", "expected"),
    [
        (0.8, [0, 0.2, 0.4, 0.6, 0.8]),
        (32, [0, 10, 20, 30]),
        (55, [0, 20, 40]),
        (1, [0, 0.25, 0.5, 0.75, 1]),
    ],
)
def test_ticks_are_round_numbers(most: float, expected: list[float]) -> None:
    assert ticks(most) == pytest.approx(expected)


def test_labels_are_escaped_and_marked() -> None:
    html = lines([Line("<a>", [(1, 1.0)], "fw-line-0")], "x", "y", "d", marks=[(1, "S < 2")])
    assert "<a>" not in html
    assert "S &lt; 2" in html


def test_bars_are_as_high_as_their_share() -> None:
    assert re.findall(r' height="([\d.]+)"', bars([4.0, 2.0, 0.0], "d")) == ["96.0", "48.0", "0.0"]
    assert "<rect" not in bars([], "d")
