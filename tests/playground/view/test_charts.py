"""Charts: points are where their numbers say."""

import re

from fastweights.playground.view.charts import BOTTOM, HEIGHT, LEFT, RIGHT, TOP, WIDTH, Line, bars, lines


def test_points_are_in_their_places() -> None:
    html = lines([Line("a", [(0, 0.0), (10, 2.0), (5, float("nan"))], "fw-line-0")], "x", "y", "a chart", top=2.0)
    found = re.search(r'<polyline[^>]* points="([^"]+)"', html)
    assert found is not None
    first, last = found[1].split(" ")
    assert first == f"{LEFT:.1f},{HEIGHT - BOTTOM:.1f}"
    assert last == f"{WIDTH - RIGHT:.1f},{TOP:.1f}"
    assert 'aria-label="a chart"' in html


def test_labels_are_escaped_and_marked() -> None:
    html = lines([Line("<a>", [(1, 1.0)], "fw-line-0")], "x", "y", "d", marks=[(1, "S < 2")])
    assert "<a>" not in html
    assert "S &lt; 2" in html


def test_bars_are_as_high_as_their_share() -> None:
    assert re.findall(r' height="([\d.]+)"', bars([4.0, 2.0, 0.0], "d")) == ["96.0", "48.0", "0.0"]
    assert "<rect" not in bars([], "d")
