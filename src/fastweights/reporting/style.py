"""Figures in one style: colours of Okabe and Ito, told apart with any colour vision, and files that never vary."""

import base64
import io
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import matplotlib.artist
    import matplotlib.axes
    import matplotlib.figure

BLACK, GREY = "#000000", "#7a7a7a"
ORANGE, SKY, GREEN, YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
BLUE, VERMILION, PURPLE = "#0072B2", "#D55E00", "#CC79A7"

STYLE: Any = {
    "font.family": "DejaVu Sans",
    "font.size": 10.5,
    "axes.titlesize": 11.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#e4e4e4",
    "grid.linewidth": 0.7,
    "legend.frameon": False,
    "legend.fontsize": 9.5,
    "lines.linewidth": 1.9,
    "lines.markersize": 5.5,
    "svg.fonttype": "path",
    "svg.hashsalt": "fastweights",
}
PIXELS_PER_INCH = 144


@dataclass(frozen=True)
class Drawing:
    """A figure with its file name, caption, and description for those who cannot see it."""

    name: str
    figure: "matplotlib.figure.Figure"
    caption: str
    description: str
    raster: bool = False
    """True if the report embeds pixels; surfaces of thousands of polygons are smaller that way."""

    def data_uri(self) -> str:
        """The figure inside a URI, so that a page needs no other file."""
        kind, content = ("png", self.png) if self.raster else ("svg+xml", self.svg)
        return f"data:image/{kind};base64,{base64.b64encode(content).decode('ascii')}"

    @cached_property
    def png(self) -> bytes:
        return self._bytes("png", {"Software": None})

    @cached_property
    def svg(self) -> bytes:
        return self._bytes("svg", {"Date": None, "Creator": None})

    def save(self, folder: Path) -> None:
        """Write NAME.png and NAME.svg."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{self.name}.png").write_bytes(self.png)
        (folder / f"{self.name}.svg").write_bytes(self.svg)

    def _bytes(self, kind: str, metadata: dict[str, None]) -> bytes:
        import matplotlib as mpl

        buffer = io.BytesIO()
        with mpl.rc_context(STYLE):
            self.figure.savefig(buffer, format=kind, dpi=PIXELS_PER_INCH, metadata=metadata)
        return buffer.getvalue()


def draw(width: float, height: float, fill: "Callable[[matplotlib.figure.Figure], None]") -> "matplotlib.figure.Figure":
    """A figure of the common style, filled by `fill`."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    with mpl.rc_context(STYLE):
        figure = Figure(figsize=(width, height), layout="constrained")
        fill(figure)
        # Settled once, so that saving twice cannot move anything.
        figure.draw_without_rendering()
        figure.set_layout_engine("none")
    return figure


def legend_of(panels: "Iterable[matplotlib.axes.Axes]") -> "tuple[list[matplotlib.artist.Artist], list[str]]":
    """The lines of several panels with their names, each name once: what a legend for all of them takes."""
    found = {label: line for axes in panels for line, label in zip(*axes.get_legend_handles_labels(), strict=True)}
    return list(found.values()), list(found)


@dataclass(frozen=True)
class Series:
    """Label, colour, marker and line of one model under one rule."""

    label: str
    colour: str
    marker: str
    line: str = "-"

    def ours(self) -> dict[str, Any]:
        """How our runs are drawn."""
        return {
            "color": self.colour,
            "marker": self.marker,
            "linestyle": self.line,
            "label": self.label,
            "markeredgecolor": "white",
            "markeredgewidth": 0.6,
            "zorder": 3,
        }

    def published(self) -> dict[str, Any]:
        """How the published runs are drawn: the same colour, thin, behind ours."""
        return {"color": self.colour, "linestyle": self.line, "linewidth": 0.9, "alpha": 0.55, "zorder": 2}
