"""Rebinding: variables whose values change, by how often they did, and at four times the length of the training."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastweights.data.bindings import OFTEN
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.recall.grids import ALL, BINDINGS, binding_scores, bindings
from fastweights.experiments.records import Records
from fastweights.experiments.scores import AccuracyScores, percent
from fastweights.experiments.series import CONTENDER_SERIES
from fastweights.reporting import GREY, Drawing, Table, draw, legend_of
from fastweights.training.run import Run

TITLE = "Rebinding: variables whose values change"
TEXT = (
    "Events bind a variable to a value or ask for the value of one (multi-query associative recall); a variable that "
    "is bound again has the new value. Two blocks with a short convolution and no positions; all memories of a column "
    "have equally many weights. Memories with 8 variables have 32 features a head, those with 64 have 64."
)
SHOWN_GROUPS = (0, 1, 2, 4, OFTEN)
LARGE = ("64 variables", "64, 4 × as long", "64, rebound once", "64, never rebound in a sequence")
"""Columns of the problems with 64 variables."""


def runs(options: ReproduceOptions = ReproduceOptions()) -> list[Run]:  # noqa: B008  a frozen value
    """Every problem with every model; models that decide a claim with three seeds, `quick` with one."""
    return [run for _, run in bindings(options)]


def contents(records: Records) -> tuple[Drawing | Table, ...]:
    """Accuracy by problem, length and number of rebindings."""
    scores = binding_scores(records)
    return drawing(scores), table(scores)


def table(scores: AccuracyScores) -> Table:
    """A row for each model."""
    rows = []
    for model in ALL:
        cells = [percent(scores.of(("rebinding", model), test)) for test in ("x1", "x4")]
        cells += [percent(scores.of(("rebinding", model), "x4", str(group))) for group in SHOWN_GROUPS]
        cells += [percent(scores.of(("rebinding-64", model), test)) for test in ("x1", "x4")]
        cells.append(percent(scores.of(("rebinding-64", model), "x1", "1")))
        cells.append(percent(scores.of(("recall-64", model), "x1")))
        if set(cells) != {"–"}:
            rows.append((CONTENDER_SERIES[model].label, *cells))
    groups = (f"rebound {group}{' or more' if group == OFTEN else ''} times, 4 ×" for group in SHOWN_GROUPS)
    columns = ("model", "8 variables", "4 × as long", *groups, *LARGE)
    caption = "Right answers in per cent; ± is the standard deviation over three seeds. Guessing has 12.5."
    return Table("rebinding", caption, columns, tuple(rows))


def drawing(scores: AccuracyScores) -> Drawing:
    """Two panels by the number of rebindings, and one with all of 64 variables."""

    def fill(figure: Figure) -> None:
        left, middle, right = figure.subplots(1, 3, width_ratios=(1.2, 0.8, 0.9))
        draw_groups(left, "rebinding", "x4", range(OFTEN + 1), scores)
        left.set(title="8 variables, 4 × trained length", ylabel="right answers (%)")
        draw_groups(middle, "rebinding-64", "x1", range(3), scores)
        middle.set(title="64 variables")
        draw_bars(right, scores)
        figure.legend(*legend_of((left, middle)), loc="outside lower center", ncols=3)

    return Drawing(
        "rebinding",
        draw(11.5, 5.4, fill),
        "Right answers by how often the variable had been rebound, and with 64 variables that are never rebound "
        "(open) or are (filled). Dotted: guessing. Lines and bars are means over seeds.",
        "The delta rule with L2 answers alike however often a variable was rebound; the sum rule, softmax attention "
        "and the attention-normalised delta rule get worse with every rebinding.",
    )


def draw_groups(axes: Axes, problem: str, test: str, groups: range, scores: AccuracyScores) -> None:
    """A line for each model."""
    for model in BINDINGS[problem]:
        means = [scores.mean((problem, model), test, str(group)) for group in groups]
        points = [(group, 100 * mean) for group, mean in zip(groups, means, strict=True) if mean is not None]
        if points:
            axes.plot(*zip(*points, strict=True), **CONTENDER_SERIES[model].ours())
    axes.axhline(12.5, color=GREY, linestyle=":", linewidth=1.2, zorder=1)
    axes.set(xlabel="times the variable was rebound", ylim=(0, 104), xticks=list(groups))
    if groups[-1] == OFTEN:
        axes.set_xticks(list(groups), [*map(str, groups[:-1]), f"≥{OFTEN}"])


def draw_bars(axes: Axes, scores: AccuracyScores) -> None:
    """For each model two bars: 64 variables that are never rebound, and that are."""
    models = BINDINGS["rebinding-64"][::-1]
    for place, model in enumerate(models):
        colour = CONTENDER_SERIES[model].colour
        for problem, shift, face in (("recall-64", 0.2, "none"), ("rebinding-64", -0.2, colour)):
            mean = scores.mean((problem, model), "x1")
            if mean is not None:
                axes.barh(place + shift, 100 * mean, height=0.36, color=face, edgecolor=colour, linewidth=1.2)
    axes.axvline(12.5, color=GREY, linestyle=":", linewidth=1.2)
    names = [CONTENDER_SERIES[model].label.replace(" (the paper's)", "").replace(", ", ",\n") for model in models]
    axes.set_yticks(range(len(models)), names, fontsize=8.5)
    axes.set(title="64 variables, all questions", xlabel="right answers (%)", xlim=(0, 104))
    axes.set_ylim(-0.6, len(models) - 0.4)
    axes.grid(visible=False, axis="y")
