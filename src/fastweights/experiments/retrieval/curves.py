"""Learning curves of Figures 3 and 4: our runs as lines, the ends of the published ones as open symbols."""

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from fastweights.experiments.retrieval.outcomes import Outcomes
from fastweights.reporting.style import GREY, Series


def draw_curves(axes: Axes, runs: Outcomes, series: Series, marker_every: float = 0.1) -> None:
    """One line per seed, the first one with symbols and a label."""
    style = series.ours()
    for index, outcome in enumerate(runs):
        steps, losses = zip(*outcome.curve, strict=True) if outcome.curve else ((), ())
        if index == 0:
            axes.plot(steps, losses, markevery=marker_every, **style)
        else:
            thin = style | {"marker": "", "linewidth": 1.0, "alpha": 0.8, "label": None}
            axes.plot(steps, losses, **thin)


def draw_ends(axes: Axes, runs: Outcomes, series: Series) -> None:
    """Where published runs ended: their curves are not public in a form to draw, their ends are."""
    for outcome in runs:
        axes.plot(
            outcome.steps,
            outcome.last,
            marker=series.marker,
            markersize=8,
            markerfacecolor="none",
            markeredgecolor=series.colour,
            markeredgewidth=1.3,
            linestyle="none",
            zorder=4,
        )


def draw_legend(axes: Axes) -> None:
    """Our runs by name, beside the axes, and what open symbols mean."""
    handles, _ = axes.get_legend_handles_labels()
    if handles:
        corner = (1.01, 1.0)
        names = axes.legend(loc="upper left", bbox_to_anchor=corner, title="our runs", alignment="left")
        axes.add_artist(names)
        # What is clipped to the axes, as added artists are, gets no room outside of them.
        names.set_clip_on(False)
    end = Line2D([], [], linestyle="none", marker="o", markersize=8, label="where a published run ended")
    end.set(markerfacecolor="none", markeredgecolor=GREY)
    axes.legend(handles=[end], loc="lower left", bbox_to_anchor=(1.01, 0.0))
