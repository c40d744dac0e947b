"""Figure 2: loss against the number of associations, for each feature map under the sum rule."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fastweights.experiments.retrieval.bounds import rank_bound
from fastweights.reporting.drawing import Drawing, draw
from fastweights.experiments.retrieval.series import CAPACITY, DETERMINISTIC, GREY, feature_dim
from fastweights.experiments.retrieval.outcomes import Outcomes


def figure2(ours: Outcomes, published: Outcomes, key_dim: int = 64) -> Drawing:
    """Best evaluation loss by model and S, over the published runs and the bound of the matrix's rank."""

    largest = max([*ours.sizes(), *published.sizes()], default=600)

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        for model, series in CAPACITY.items():
            theirs, runs = published.where(model=model), ours.where(model=model)
            if theirs:
                axes.plot(theirs.sizes(), best_losses(theirs), **series.published())
            if runs:
                axes.plot(runs.sizes(), best_losses(runs), **series.ours())
            if model in DETERMINISTIC and (theirs or runs):
                draw_bound(axes, feature_dim(model, key_dim) or 0, largest, series.colour)
        axes.set(xlabel="number of associations S", ylabel="best evaluation loss", ylim=(-0.01, 0.53))
        axes.set_xlim(0, largest * 1.02)
        if axes.get_legend_handles_labels()[0]:
            corner = (1.01, 1.0)
            axes.add_artist(axes.legend(title="our runs", loc="upper left", bbox_to_anchor=corner, alignment="left"))
        axes.legend(handles=line_kinds(bool(published)), loc="lower left", bbox_to_anchor=(1.01, 0.0))

    return Drawing("figure2", draw(9.2, 4.8, fill), caption(ours, bool(published), key_dim), DESCRIPTION)


DESCRIPTION = (
    "Loss against the number of associations: each linear memory is near zero until S passes the number of "
    "its features, then rises along its rank bound."
)


def caption(ours: Outcomes, with_published: bool, key_dim: int) -> str:
    """What the figure shows, as far as it shows it."""
    parts = [
        "Loss of the best evaluation against the number S of associations (Figure 2 of the paper; "
        f"d_key = {key_dim}, sum rule).",
        "Thick lines with symbols: our runs; thin lines: the published runs." if with_published else "",
        "Dotted: the rank bound ½(1 − d_dot/S), which no memory with d_dot features can beat on average over all keys.",
    ]
    if ours.where(model="favor128-stabilised"):
        parts.append(
            "FAVOR+ as published (dashed) fails for another reason than capacity: its features underflow. "
            "The stabilised form (solid) has the same random features."
        )
    return " ".join(part for part in parts if part)


def best_losses(runs: Outcomes) -> list[float]:
    return [runs.best(size) for size in runs.sizes()]


def draw_bound(axes: Axes, width: int, largest: int, colour: str) -> None:
    """The rank bound of a memory with `width` features, from where it is above zero."""
    sizes = range(width, largest + 1)
    bounds = [rank_bound(width, size) for size in sizes]
    axes.plot(sizes, bounds, color=colour, linestyle=":", linewidth=1.2, zorder=1)


def line_kinds(with_published: bool) -> list[Line2D]:
    """What the kinds of lines mean, for a second legend."""
    published = Line2D([], [], color=GREY, linewidth=0.9, alpha=0.6, label="published runs")
    return [
        Line2D([], [], color=GREY, marker="o", label="our runs"),
        *([published] if with_published else []),
        Line2D([], [], color=GREY, linestyle=":", linewidth=1.2, label="rank bound ½(1 − d_dot/S)"),
    ]
