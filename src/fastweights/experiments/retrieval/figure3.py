"""Figure 3: learning to overwrite, by update rule (setting 2, S = 20)."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Records
from fastweights.experiments.retrieval.bounds import layer_norm_bound, layer_norm_floor, order_blind_floor
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED
from fastweights.experiments.retrieval.outcomes import SOLVED, Outcomes, median, outcomes, published
from fastweights.experiments.retrieval.presets import preset
from fastweights.experiments.retrieval.series import OVERWRITING, draw_curves, draw_ends, draw_legend
from fastweights.reporting import GREY, Drawing, Series, Table, draw
from fastweights.runs.display import number
from fastweights.training.run import Run

TITLE = "Figure 3: learning to overwrite"
TEXT = (
    "Keys come again with new values, and the newest one is asked for. The delta rule takes the old value out before "
    "it writes; the sum rule adds the new value to it and can at best return the average."
)
SEEDS = (1, 2, 3)
SIZE = 20
VARIANTS = (
    ("dpfp1", "delta"),
    ("dpfp1", "sum"),
    ("dpfp1", "schlag2021"),
    ("dpfp1", "schlag2021-nolayernorm"),
    ("tanh", "schlag2021"),
    ("tanh", "schlag2021-nolayernorm"),
)
QUICK_VARIANTS = VARIANTS[:4]
"""Without the tanh baseline, which takes more than ten thousand steps of four times the batch size."""


def runs(options: ReproduceOptions = ReproduceOptions()) -> list[Run]:  # noqa: B008  a frozen value
    """Every variant for every seed; `quick` takes the fast variants and one seed."""
    seeds = options.seeds or SEEDS
    variants, seeds = (QUICK_VARIANTS, seeds[:1]) if options.quick else (VARIANTS, seeds)
    return [preset("overwriting", model, rule, SIZE, seed, AS_PUBLISHED) for model, rule in variants for seed in seeds]


def contents(records: Records) -> tuple[Drawing | Table, ...]:
    """The learning curves, and the best and the last loss of each variant."""
    ours, theirs = variants(outcomes(records)), variants(published())
    return drawing(ours, theirs, SIZE), rules_table(ours, theirs)


def variants(found: Outcomes) -> Outcomes:
    """The outcomes that the figure shows."""
    small = found.where(setting="overwriting", num_keys=SIZE)
    return Outcomes(tuple(outcome for pair in VARIANTS for outcome in small.where(model=pair[0], rule=pair[1])))


def rules_table(ours: Outcomes, theirs: Outcomes) -> Table:
    """Best losses and steps of each variant, under both evaluation lengths."""
    rows = []
    for model, rule in VARIANTS:
        found, known = ours.where(model=model, rule=rule), theirs.where(model=model, rule=rule)
        if not found:
            continue
        rows.append(
            (
                OVERWRITING[(model, rule)].label,
                number(known.best(SIZE)) if known else "–",
                number(found.best(SIZE)),
                number(median([outcome.best_by_text for outcome in found])),
                ", ".join(str(outcome.steps) for outcome in known) or "–",
                ", ".join(str(outcome.steps) for outcome in found),
            )
        )
    return Table(
        "rules",
        f"Best loss at S = {SIZE}, the median over seeds, and the steps each run took.",
        ("variant", "published, length S", "ours, length S", "ours, length 2S", "steps, published", "steps, ours"),
        tuple(rows),
    )


def drawing(ours: Outcomes, published: Outcomes, num_keys: int) -> Drawing:
    """Overwriting: loss during training for each update rule, every seed a line."""

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        shown: list[Series] = []
        for (model, rule), series in OVERWRITING.items():
            found, known = ours.where(model=model, rule=rule), published.where(model=model, rule=rule)
            draw_curves(axes, found, series)
            draw_ends(axes, known, series)
            shown += [series] if found or known else []
        axes.set(xscale="log", yscale="log", xlabel="training step", ylabel="evaluation loss")
        axes.set(xlim=(90, 45_000), ylim=(4e-4, 100))
        draw_level(axes, layer_norm_bound(num_keys), "unit-variance reads: ½(1 + S − 2√(S − 1))")
        draw_level(axes, order_blind_floor(num_keys, num_keys), "order-blind rules, evaluated on L = S")
        draw_level(axes, order_blind_floor(num_keys, 2 * num_keys), "order-blind rules, evaluated on L = 2S")
        draw_level(axes, layer_norm_floor(num_keys), "layer-normalised reads: 1/(2S)")
        draw_level(axes, SOLVED, "training stops")
        draw_legend(axes, shown)

    return Drawing(
        "figure3",
        draw(10.2, 5.0, fill),
        f"Learning to overwrite (Figure 3 of the paper; S = {num_keys}, sequences of {2 * num_keys}). One "
        "line per seed; open symbols: where the published runs ended. Grey lines: what theory allows. To "
        "be expected: the delta rule reaches the stopping loss; the sum rule ends on the floor of rules that forget "
        "the order of writes; the layer norm of Schlag (2021) keeps it from ever reaching the stopping loss.",
        "Learning curves on logarithmic axes: the delta rule falls to 0.001 within about a thousand steps, "
        "the sum rule stays near 0.1, the Schlag (2021) baselines stay above.",
    )


def draw_level(axes: Axes, level: float, label: str) -> None:
    """A horizontal line that theory draws, with its name at the right end."""
    axes.axhline(level, color=GREY, linestyle=(0, (4, 3)), linewidth=0.9, zorder=1)
    right = axes.get_xlim()[1]
    axes.text(right, level * 1.06, f"{label} = {level:.3g}", ha="right", va="bottom", fontsize=8, color="#555555")
