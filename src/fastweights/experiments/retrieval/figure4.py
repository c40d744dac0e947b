"""Figure 4: learning curves of the capacity experiment at its largest size (App. C.1)."""

from matplotlib.figure import Figure

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Records
from fastweights.experiments.retrieval import figure2
from fastweights.experiments.retrieval.bounds import rank_bound
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED
from fastweights.experiments.retrieval.outcomes import Outcomes, outcomes, published
from fastweights.experiments.retrieval.presets import preset
from fastweights.experiments.retrieval.series import (
    CAPACITY,
    DETERMINISTIC,
    draw_curves,
    draw_ends,
    draw_legend,
    feature_dim,
)
from fastweights.reporting import Drawing, Series, draw
from fastweights.training.run import Run

TITLE = "Figure 4: learning curves"
TEXT = "Each memory learns until its rank stops it; softmax attention, which keeps every pair, goes on."
SEEDS = (1,)
SIZE, QUICK_SIZE = 600, 140


def runs(options: ReproduceOptions = ReproduceOptions()) -> list[Run]:  # noqa: B008  a frozen value
    """Every model of Figure 2 at S = 600; `quick` takes the models of its quick form at S = 140."""
    models, size = (figure2.QUICK_MODELS, QUICK_SIZE) if options.quick else (figure2.MODELS, SIZE)
    return [
        preset("capacity", model, "sum", size, seed, AS_PUBLISHED)
        for seed in options.seeds or SEEDS
        for model in models
    ]


def contents(records: Records) -> tuple[Drawing, ...]:
    """The curves at S = 600 or, until those are there, at the size of the quick form."""
    found = outcomes(records).where(setting="capacity")
    size = SIZE if SIZE in found.sizes() else QUICK_SIZE
    ours, theirs = found.where(num_keys=size), published().where(setting="capacity", num_keys=size)
    return (drawing(ours, theirs, size),)


def drawing(ours: Outcomes, published: Outcomes, num_keys: int) -> Drawing:
    """Capacity: loss during training at one S, every model a line."""

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        shown: list[Series] = []
        for model, series in CAPACITY.items():
            found, known = ours.where(model=model), published.where(model=model)
            draw_curves(axes, found, series, marker_every=0.12)
            draw_ends(axes, known, series)
            shown += [series] if found or known else []
            if model in DETERMINISTIC:
                bound = rank_bound(feature_dim(model) or 0, num_keys)
                axes.axhline(bound, color=series.colour, linestyle=":", linewidth=1.2, zorder=1)
        axes.set(xlabel=f"training step, S = {num_keys}", ylabel="evaluation loss")
        axes.set_ylim(-0.01, max(0.55, 1.02 * axes.dataLim.y1))
        axes.set_xlim(left=0)
        draw_legend(axes, shown)

    return Drawing(
        "figure4",
        draw(9.2, 4.5, fill),
        f"Learning curves with S = {num_keys} associations (Figure 4 of the paper). Open symbols: where "
        "the published runs ended; dotted: the rank bound of each feature map"
        + ("; thin lines: the same model with other seeds." if len({run.seed for run in ours}) > 1 else "."),
        "Learning curves: each linear memory settles on its rank bound, softmax goes towards zero.",
    )
