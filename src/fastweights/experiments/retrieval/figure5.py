"""Figure 5: overwriting at every size, by feature map and update rule (setting 2, App. C.2)."""

from collections.abc import Callable
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Records
from fastweights.experiments.retrieval.bounds import layer_norm_bound, order_blind_floor
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED
from fastweights.experiments.retrieval.outcomes import Outcome, Outcomes, median, outcomes, published
from fastweights.experiments.retrieval.presets import preset
from fastweights.experiments.retrieval.series import OVERWRITING
from fastweights.reporting import GREY, Drawing, Table, draw
from fastweights.runs.display import number
from fastweights.training.run import Run

TITLE = "Figure 5: overwriting at every size"
TEXT = (
    "With the same feature map the delta rule is below the sum rule at every size. Across maps it is not: beyond its "
    "64 features, Linear with the delta rule is worse than DPFP-1 with the sum rule, in the published logs as in ours."
)
SEEDS = (1,)
SIZES = tuple(range(20, 201, 20))
FULL = (("dpfp1", "delta"), ("dpfp1", "sum"), ("dpfp2", "delta"), ("dpfp2", "sum"), ("elu", "delta"), ("elu", "sum"))
SMALLER: dict[tuple[str, str], tuple[int, ...]] = {
    ("dpfp1", "schlag2021"): (20, 40, 60, 80, 100),
    ("tanh", "schlag2021"): (20, 40),
    ("favor64", "delta"): (20, 40, 60, 100, 140),
    ("favor64-stabilised", "delta"): (20, 40, 60, 100, 140),
}
"""Models that run at some sizes only: Schlag (2021) runs step by step, FAVOR+ is in a claim, not in the figure."""
QUICK_SIZES, QUICK_PAIRS = (20, 60, 100), (("dpfp1", "delta"), ("dpfp1", "sum"), ("elu", "delta"), ("elu", "sum"))


def runs(options: ReproduceOptions = ReproduceOptions()) -> list[Run]:  # noqa: B008  a frozen value
    """Sum and delta rule with three maps at every size and the slower ones at some; `quick` takes a few of them."""
    if options.quick:
        grid = [(pair, size) for pair in QUICK_PAIRS for size in QUICK_SIZES]
    else:
        grid = [(pair, size) for pair in FULL for size in SIZES]
        grid += [(pair, size) for pair, sizes in SMALLER.items() for size in sizes]
    return [
        preset("overwriting", *pair, size, seed, AS_PUBLISHED) for seed in options.seeds or SEEDS for pair, size in grid
    ]


def contents(records: Records) -> tuple[Drawing | Table, ...]:
    """Every loss, under both evaluation lengths."""
    ours, theirs = (found.where(setting="overwriting") for found in (outcomes(records), published()))
    return drawing(ours, theirs), overwriting_table(ours, theirs)


def overwriting_table(ours: Outcomes, theirs: Outcomes) -> Table:
    """Best loss on length S, ours and published, by pair and size."""
    rows = []
    for (model, rule), series in OVERWRITING.items():
        found, known = ours.where(model=model, rule=rule), theirs.where(model=model, rule=rule)
        if not found:
            continue
        for kind, losses in (
            ("ours, length S", by_size(found, lambda outcome: outcome.best)),
            ("ours, length 2S", by_size(found, lambda outcome: outcome.best_by_text)),
            ("published, length S", by_size(known, lambda outcome: outcome.best)),
        ):
            if losses:
                cells = (number(losses[size]) if size in losses else "–" for size in SIZES)
                rows.append((series.label, kind, *cells))
    return Table(
        "overwriting", "Best evaluation loss by S.", ("model", "runs", *(str(size) for size in SIZES)), tuple(rows)
    )


def by_size(found: Outcomes, loss: Callable[[Outcome], float]) -> dict[int, float]:
    """The median over seeds at each size."""
    return {size: median([loss(o) for o in found.where(num_keys=size)]) for size in found.sizes()}


def drawing(ours: Outcomes, published: Outcomes) -> Drawing:
    """Best loss by rule, map and S: on the published evaluation length S and on the paper's length 2S."""

    def fill(figure: Figure) -> None:
        left, right = figure.subplots(1, 2, sharey=True)
        draw_panel(left, ours, lambda outcome: outcome.best, 1)
        for (model, rule), series in OVERWRITING.items():
            runs = published.where(model=model, rule=rule)
            if runs:
                name = {} if ours.where(model=model, rule=rule) else {"label": series.label}
                left.plot(runs.sizes(), [runs.best(size) for size in runs.sizes()], **series.published(), **name)
        draw_panel(right, ours, lambda outcome: outcome.best_by_text, 2)
        left.set(title="evaluated on length S, as published", ylabel="best evaluation loss")
        right.set(title="evaluated on length 2S, as in the text")
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3)

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
        losses = by_size(ours.where(model=model, rule=rule), loss)
        if losses:
            axes.plot(list(losses), list(losses.values()), **series.ours())
    grid = range(20, 201, 10)
    floors = [order_blind_floor(size, lengths * size) for size in grid]
    theory: dict[str, Any] = {"color": GREY, "linewidth": 1.1}
    axes.plot(grid, floors, linestyle=(0, (4, 3)), label="floor of order-blind rules", **theory)
    bounds = [layer_norm_bound(size) for size in grid]
    axes.plot(grid, bounds, linestyle=(0, (1, 1.5)), label="bound of reads of unit variance", **theory)
    axes.set(yscale="log", xlabel="number of keys S", xlim=(15, 205))
    axes.set_ylim(min(5e-5, 0.7 * axes.dataLim.minposy), 400)
    axes.set_xticks(range(20, 201, 20))
