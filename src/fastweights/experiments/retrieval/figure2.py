"""Figure 2: how many associations a memory holds, by feature map (setting 1, sum rule)."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Records
from fastweights.experiments.retrieval.bounds import rank_bound
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED
from fastweights.experiments.retrieval.outcomes import NEARLY_SOLVED, Outcomes, outcomes, published
from fastweights.experiments.retrieval.presets import preset
from fastweights.experiments.retrieval.series import CAPACITY, DETERMINISTIC, draw_names, feature_dim
from fastweights.reporting import GREY, Drawing, Series, Table, draw
from fastweights.runs.display import number
from fastweights.training.run import Run

TITLE = "Figure 2: capacity"
TEXT = (
    "S keys are written once each with S values, then one key is asked for. A matrix with d_dot columns cannot hold "
    "more than d_dot associations apart; the loss rises along the rank bound once S passes it."
)
SEEDS = (1,)
SEEDS_OF_SOFTMAX = (1, 2, 3, 4, 5)
"""At large S, how many symbols softmax attention never tells apart is a matter of the seed."""
SIZES = (20, 40, 60, 80, 100, 120, 140, 180, 220, 260, 300, 340, 380, 420, 480, 540, 600)
MODELS = ("softmax", "elu", "dpfp1", "dpfp2", "dpfp3", "favor64", "favor128")
SMALL_SIZES = SIZES[: SIZES.index(140) + 1]
"""FAVOR+ 512 is slow, and beyond these sizes its loss is 0.5 as published."""
STABILISED_SIZES = (20, 60, 100, 140, 180, 220, 260, 300, 380, 600)
QUICK_SIZES, QUICK_MODELS = (20, 60, 100, 140, 220), ("softmax", "elu", "dpfp1", "dpfp2", "favor64")


def runs(options: ReproduceOptions = ReproduceOptions()) -> list[Run]:  # noqa: B008  a frozen value
    """Every model at every size; `quick` takes five of each."""
    quick, seeds = options.quick, options.seeds or SEEDS
    if quick:
        grid = [(model, size) for model in QUICK_MODELS for size in QUICK_SIZES]
    else:
        grid = [(model, size) for model in MODELS for size in SIZES]
        grid += [("favor512", size) for size in SMALL_SIZES]
        grid += [("favor128-stabilised", size) for size in STABILISED_SIZES]
    several = {"softmax": SEEDS_OF_SOFTMAX} if seeds == SEEDS and not quick else {}
    return [
        preset("capacity", model, "sum", size, seed, AS_PUBLISHED)
        for model, size in grid
        for seed in several.get(model, seeds)
    ]


def contents(records: Records) -> tuple[Drawing | Table, ...]:
    """Our losses over the published ones, and how far our runs are from those."""
    ours, theirs = (found.where(setting="capacity") for found in (outcomes(records), published()))
    return drawing(ours, theirs), capacity_table(ours, theirs)


def capacity_table(ours: Outcomes, theirs: Outcomes) -> Table:
    """For each model the largest S that is nearly solved, and the loss at the largest S, against the published runs."""
    rows = []
    for model, series in CAPACITY.items():
        found = ours.where(model=model)
        if not found:
            continue
        # The published grid is finer: only sizes that both have can be compared.
        known = theirs.where(model=model).on(found.sizes())
        largest = found.sizes()[-1]
        loss = number(found.best(largest)) + spread(found.on([largest]))
        rows.append(
            (
                series.label,
                str(feature_dim(model) or "∞"),
                *((solved(known), solved(found), steps_apart(found, known)) if known else ("–", solved(found), "–")),
                str(largest),
                *((number(known.best(largest)), loss, difference(found, known)) if known else ("–", loss, "–")),
                f"{len(found.sizes())} of {len(SIZES)}",
            )
        )
    columns = (
        "model", "d_dot", f"largest S ≤ {NEARLY_SOLVED}, published", "ours", "grid steps apart",
        "largest S run", "loss there, published", "ours", "difference", "sizes run",
    )  # fmt: skip
    text = (
        f"Largest S with a best loss of at most {NEARLY_SOLVED}, and the best loss at the largest S that was run; "
        "medians where there are several seeds."
    )
    return Table("capacity", text, columns, tuple(rows))


def spread(found: Outcomes) -> str:
    """From the smallest to the largest best loss, where there are several seeds."""
    losses = [outcome.best for outcome in found]
    return f" ({number(min(losses))} to {number(max(losses))}, {len(losses)} seeds)" if len(losses) > 1 else ""


def solved(found: Outcomes) -> str:
    """The largest S that is nearly solved."""
    return str(found.largest_solved(NEARLY_SOLVED) or "none")


def steps_apart(found: Outcomes, known: Outcomes) -> str:
    """How many sizes of the grid lie between the largest S that is nearly solved here and there."""
    reached = [
        sum(size <= (outcomes.largest_solved(NEARLY_SOLVED) or 0) for size in found.sizes())
        for outcomes in (found, known)
    ]
    return str(abs(reached[0] - reached[1]))


def difference(found: Outcomes, known: Outcomes) -> str:
    """Our loss minus the published one at the largest S that was run."""
    largest = found.sizes()[-1]
    return f"{found.best(largest) - known.best(largest):+.3f}"


def drawing(ours: Outcomes, published: Outcomes, key_dim: int = 64) -> Drawing:
    """Best evaluation loss by model and S, over the published runs and the bound of the matrix's rank."""

    largest = max([*ours.sizes(), *published.sizes()], default=600)

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        shown: list[Series] = []
        for model, series in CAPACITY.items():
            theirs, runs = published.where(model=model), ours.where(model=model)
            if theirs:
                axes.plot(theirs.sizes(), best_losses(theirs), **series.published())
            if runs:
                axes.plot(runs.sizes(), best_losses(runs), **series.ours())
            shown += [series] if theirs or runs else []
            if model in DETERMINISTIC and (theirs or runs):
                draw_bound(axes, feature_dim(model, key_dim) or 0, largest, series.colour)
        axes.set(xlabel="number of associations S", ylabel="best evaluation loss")
        axes.set_ylim(-0.01, max(0.53, 1.02 * axes.dataLim.y1))
        axes.set_xlim(0, largest * 1.02)
        draw_names(axes, shown)
        axes.legend(handles=line_kinds(bool(published)), loc="lower left", bbox_to_anchor=(1.01, 0.0))

    return Drawing("figure2", draw(9.2, 4.8, fill), caption(ours, bool(published), key_dim), DESCRIPTION)


DESCRIPTION = (
    "Loss against the number of associations: each linear memory is near zero until S passes the number of "
    "its features, then rises along its rank bound."
)


def caption(ours: Outcomes, with_published: bool, key_dim: int) -> str:
    """The caption; mentions published or stabilised runs only if they are drawn."""
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
    """A second legend for the kinds of lines."""
    published = Line2D([], [], color=GREY, linewidth=0.9, alpha=0.6, label="published runs")
    return [
        Line2D([], [], color=GREY, marker="o", label="our runs"),
        *([published] if with_published else []),
        Line2D([], [], color=GREY, linestyle=":", linewidth=1.2, label="rank bound ½(1 − d_dot/S)"),
    ]
