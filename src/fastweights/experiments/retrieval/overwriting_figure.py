"""Figure 5: loss against the number of associations when keys are overwritten."""

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastweights.experiments.retrieval.bounds import layer_norm_bound, order_blind_floor
from fastweights.reporting.drawing import Drawing, draw
from fastweights.experiments.retrieval.series import GREY, OVERWRITING
from fastweights.experiments.retrieval.outcomes import Outcome, Outcomes, median


def figure5(ours: Outcomes, published: Outcomes) -> Drawing:
    """Best loss by rule, map and S: on the published evaluation length S and on the paper's length 2S."""

    def fill(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        draw_panel(left, ours, lambda outcome: outcome.best, 1)
        for (model, rule), series in OVERWRITING.items():
            runs = published.where(model=model, rule=rule)
            if runs:
                left.plot(runs.sizes(), [runs.best(size) for size in runs.sizes()], **series.published())
        draw_panel(right, ours, lambda outcome: outcome.best_by_text, 2)
        left.set(title="evaluated on length S, as published", ylabel="best evaluation loss")
        right.set(title="evaluated on length 2S, as in the text")
        handles, labels = left.get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=3)

    return Drawing(
        "figure5",
        draw(9.6, 5.8, fill),
        "Loss of the best evaluation against S when keys are overwritten (Figure 5 of the paper). Colour: "
        "feature map; solid: delta rule; dashed: sum rule; dash-dotted: Schlag (2021). Thin lines: the "
        "published runs. Grey: the floor of order-blind rules, and the bound of layer-normalised reads of "
        "unit variance.",
        "On logarithmic axes the delta rule is below the sum rule for the same feature map at every S; "
        "Linear with the delta rule crosses DPFP-1 with the sum rule at S = 120.",
    )


def draw_panel(axes: Axes, ours: Outcomes, loss: Callable[[Outcome], float], lengths: int) -> None:
    """Our runs by the given loss, and the theory for sequences of `lengths` times S."""
    for (model, rule), series in OVERWRITING.items():
        runs = ours.where(model=model, rule=rule)
        if runs:
            sizes = runs.sizes()
            losses = [median([loss(run) for run in runs.where(num_keys=size)]) for size in sizes]
            axes.plot(sizes, losses, **series.ours())
    grid = range(20, 201, 10)
    floors = [order_blind_floor(size, lengths * size) for size in grid]
    axes.plot(grid, floors, color=GREY, linestyle=(0, (4, 3)), linewidth=1.1)
    note: dict[str, Any] = {"ha": "left", "fontsize": 8.5, "color": "#555555"}
    axes.text(20, floors[0] * 1.12, "floor of order-blind rules", va="bottom", **note)
    bounds = [layer_norm_bound(size) for size in grid]
    axes.plot(grid, bounds, color=GREY, linestyle=(0, (1, 1.5)), linewidth=1.1)
    axes.text(105, bounds[-1] * 1.7, "bound of reads of unit variance", va="bottom", **note)
    axes.set(yscale="log", xlabel="number of keys S", xlim=(15, 205), ylim=(5e-5, 400))
    axes.set_xticks(range(20, 201, 20))
