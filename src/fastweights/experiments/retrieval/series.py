"""The look of each model and rule of the retrieval experiments, and the learning curves of Figures 3 and 4."""

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from fastweights.experiments.retrieval.names import MODELS
from fastweights.experiments.retrieval.outcomes import Outcomes
from fastweights.reporting import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, Series

CAPACITY = {
    "softmax": Series("softmax", BLACK, "o"),
    "elu": Series("Linear (ELU+1)", ORANGE, "s"),
    "dpfp1": Series("DPFP-1", SKY, "D"),
    "dpfp2": Series("DPFP-2", BLUE, "^"),
    "dpfp3": Series("DPFP-3", GREEN, "v"),
    "favor64": Series("FAVOR+ 64", VERMILION, "P", "--"),
    "favor128": Series("FAVOR+ 128", PURPLE, "X", "--"),
    "favor512": Series("FAVOR+ 512", GREY, "*", "--"),
    "favor128-stabilised": Series("FAVOR+ 128, stabilised", PURPLE, "h", "-"),
}
"""Models of the capacity experiment, in the order of the legend."""

DETERMINISTIC = ("elu", "dpfp1", "dpfp2", "dpfp3")
"""Maps without random features: for these the rank bound is what decides."""


def feature_dim(model: str, key_dim: int = 64) -> int | None:
    """d_dot of a model (Table 6); none for softmax attention, which keeps every key."""
    feature_map = MODELS[model]
    return None if feature_map is None else feature_map.feature_dim(key_dim)


OVERWRITING = {
    ("dpfp1", "delta"): Series("DPFP-1, delta rule", SKY, "D"),
    ("dpfp2", "delta"): Series("DPFP-2, delta rule", BLUE, "^"),
    ("elu", "delta"): Series("Linear, delta rule", ORANGE, "s"),
    ("dpfp1", "sum"): Series("DPFP-1, sum rule", SKY, "D", "--"),
    ("dpfp2", "sum"): Series("DPFP-2, sum rule", BLUE, "^", "--"),
    ("elu", "sum"): Series("Linear, sum rule", ORANGE, "s", "--"),
    ("dpfp1", "schlag2021"): Series("Schlag (2021) with DPFP-1", VERMILION, "P", "-."),
    ("tanh", "schlag2021"): Series("Schlag (2021)", PURPLE, "X", "-."),
    ("dpfp1", "schlag2021-nolayernorm"): Series("Schlag (2021) with DPFP-1, no layer norm", VERMILION, "P", ":"),
    ("tanh", "schlag2021-nolayernorm"): Series("Schlag (2021), no layer norm", PURPLE, "X", ":"),
}
"""Pairs of feature map and rule of the overwriting experiment."""


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


def draw_names(axes: Axes, shown: Iterable[Series]) -> None:
    """The name of every series in the axes, ours or published, beside them."""
    handles = [Line2D([], [], **series.ours()) for series in shown]
    if handles:
        names = axes.legend(handles=handles, loc="upper left", bbox_to_anchor=(1.01, 1.0))
        axes.add_artist(names)
        # What is clipped to the axes, as added artists are, gets no room outside of them.
        names.set_clip_on(False)


def draw_legend(axes: Axes, shown: Iterable[Series]) -> None:
    """The names beside the axes, and what lines and open symbols mean."""
    draw_names(axes, shown)
    line = Line2D([], [], color=GREY, label="our runs")
    end = Line2D([], [], linestyle="none", marker="o", markersize=8, label="where a published run ended")
    end.set(markerfacecolor="none", markeredgecolor=GREY)
    axes.legend(handles=[line, end], loc="lower left", bbox_to_anchor=(1.01, 0.0))
