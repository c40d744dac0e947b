"""Figure 2: loss against the number of associations, for each feature map under the sum rule."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fastweights.reporting.bounds import rank_bound
from fastweights.reporting.figures.drawing import Drawing, draw
from fastweights.reporting.figures.series import CAPACITY, FEATURE_DIMS, GREY
from fastweights.reporting.outcomes import Outcomes


def figure2(ours: Outcomes, published: Outcomes) -> Drawing:
    """Best evaluation loss by model and S, over the published runs and the bound of the matrix's rank."""

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        for model, series in CAPACITY.items():
            draw_published(axes, published.where(model=model), model)
            runs = ours.where(model=model)
            if runs:
                axes.plot(runs.sizes(), [runs.best(size) for size in runs.sizes()], **series.ours())
        axes.set(xlabel="number of associations S", ylabel="best evaluation loss", xlim=(10, 610), ylim=(-0.01, 0.53))
        axes.set_xticks(range(0, 601, 100))
        if axes.get_legend_handles_labels()[0]:
            corner = (1.01, 1.0)
            axes.add_artist(axes.legend(title="our runs", loc="upper left", bbox_to_anchor=corner, alignment="left"))
        axes.legend(handles=line_kinds(), loc="lower left", bbox_to_anchor=(1.01, 0.0))

    return Drawing(
        "figure2",
        draw(9.2, 4.8, fill),
        "Loss of the best evaluation against the number S of associations (Figure 2 of the paper; d_key = 64, sum "
        "rule). Thick lines with symbols: our runs; thin lines: the published runs; dotted: the rank bound "
        "½(1 − d_dot/S), which no memory with d_dot features can beat on average over all keys. FAVOR+ as published "
        "(dashed) fails for another reason: its features underflow; in the stabilised form it learns.",
        "Loss rises from zero where S passes 64, 128, 256 and 384 for Linear, DPFP-1, DPFP-2 and DPFP-3; softmax stays "
        "near zero; FAVOR+ as published is at 0.5 from S = 100 on.",
    )


def draw_published(axes: Axes, runs: Outcomes, model: str) -> None:
    """The published runs of a model, and the bound that holds for it where it is above zero."""
    series = CAPACITY[model]
    if runs:
        axes.plot(runs.sizes(), [runs.best(size) for size in runs.sizes()], **series.published())
    if model in FEATURE_DIMS and not model.startswith("favor"):
        sizes = range(FEATURE_DIMS[model], 601, 4)
        bounds = [rank_bound(FEATURE_DIMS[model], size) for size in sizes]
        axes.plot(sizes, bounds, color=series.colour, linestyle=":", linewidth=1.2, zorder=1)


def line_kinds() -> list[Line2D]:
    """What the kinds of lines mean, for a second legend."""
    return [
        Line2D([], [], color=GREY, marker="o", label="our runs"),
        Line2D([], [], color=GREY, linewidth=0.9, alpha=0.6, label="published runs"),
        Line2D([], [], color=GREY, linestyle=":", linewidth=1.2, label="rank bound ½(1 − d_dot/S)"),
    ]
