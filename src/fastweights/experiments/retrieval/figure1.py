"""Figure 1: the four components of DPFP-1 over the plane. Nothing to train."""

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from numpy.typing import NDArray

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Records
from fastweights.feature_maps import DPFP
from fastweights.reporting import BLUE, GREEN, ORANGE, VERMILION, Drawing, draw
from fastweights.training.run import Run

TITLE = "Figure 1: what DPFP does"
TEXT = (
    "DPFP multiplies pairs of rectified coordinates. In two dimensions each key activates one of four features, so "
    "keys of different quarters of the plane do not meet in the memory."
)
COLOURS = (BLUE, ORANGE, GREEN, VERMILION)


def runs(options: ReproduceOptions) -> list[Run]:
    """None."""
    return []


def contents(records: Records) -> tuple[Drawing, ...]:
    """The surfaces of Eqs. 33 to 36, computed by the feature map itself."""
    return (drawing(),)


def drawing() -> Drawing:
    """Each point of the plane has one component that is not zero; the four quarters are orthogonal after mapping."""

    def fill(figure: Figure) -> None:
        grid = figure.add_gridspec(1, 2, width_ratios=[1.25, 1])
        draw_surfaces(figure.add_subplot(grid[0], projection="3d"))
        draw_from_above(figure.add_subplot(grid[1]))

    return Drawing(
        "figure1",
        draw(9.2, 4.3, fill),
        "DPFP-1 maps the plane to four dimensions. Left: the four components φ₁ … φ₄ as surfaces (Figure 1 "
        "of the paper). Right: the same from above; for every k exactly one component is active, so keys "
        "from different quarters of the plane are orthogonal after the mapping.",
        "Four coloured surfaces over the plane, each rising in its own quadrant and zero elsewhere.",
        raster=True,
    )


def features(points: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """A grid from -1 to 1, and φ of each of its points in the order of Eqs. 33 to 36."""
    line = torch.linspace(-1, 1, points, dtype=torch.float64)
    grid = torch.stack(torch.meshgrid(line, line, indexing="xy"), dim=-1)
    mapped = DPFP(nu=1)(grid)
    corners = torch.tensor([[1.0, 1.0], [-1.0, 1.0], [1.0, -1.0], [-1.0, -1.0]], dtype=torch.float64)
    order = DPFP(nu=1)(corners).argmax(dim=-1)
    return line.numpy(), mapped[..., order].numpy()


def draw_surfaces(axes: Axes) -> None:
    line, mapped = features(33)
    x, y = np.meshgrid(line, line)
    for index, colour in enumerate(COLOURS):
        height = mapped[..., index]
        # Only where it rises: four surfaces lying on each other at zero would flicker.
        shown = np.where(height > 0, height, np.nan)
        axes.plot_surface(  # type: ignore[attr-defined]
            x, y, shown, color=colour, rstride=1, cstride=1, linewidth=0.15, edgecolor="white", alpha=0.95
        )
    axes.set(xlabel="$k_1$", ylabel="$k_2$", xticks=[-1, 0, 1], yticks=[-1, 0, 1])
    axes.set_zlabel("$\\phi_l(k)$")  # type: ignore[attr-defined]
    axes.set_zticks([0, 0.5, 1])  # type: ignore[attr-defined]
    axes.view_init(elev=32, azim=-62)  # type: ignore[attr-defined]


def draw_from_above(axes: Axes) -> None:
    line, mapped = features(201)
    picture = np.ones((len(line), len(line), 3))
    for index, colour in enumerate(COLOURS):
        picture -= mapped[..., index, None] ** 0.7 * (1 - np.array(to_rgb(colour)))
    axes.imshow(picture, extent=(-1, 1, -1, 1), origin="lower", interpolation="bilinear")
    axes.contour(line, line, mapped.sum(axis=-1), levels=[0.1, 0.3, 0.5, 0.7], colors="white", linewidths=0.8)
    names = ("$r(k_1)\\,r(k_2)$", "$r(-k_1)\\,r(k_2)$", "$r(k_1)\\,r(-k_2)$", "$r(-k_1)\\,r(-k_2)$")
    corners = ((0.5, 0.5), (-0.5, 0.5), (0.5, -0.5), (-0.5, -0.5))
    for index, ((x, y), name) in enumerate(zip(corners, names, strict=True)):
        axes.text(x, y, f"$\\phi_{index + 1}$\n{name}", ha="center", va="center", fontsize=10.5)
    axes.axhline(0, color="#555555", linewidth=0.8)
    axes.axvline(0, color="#555555", linewidth=0.8)
    axes.grid(visible=False)
    axes.set(xlabel="$k_1$", ylabel="$k_2$", xticks=[-1, 0, 1], yticks=[-1, 0, 1])
