"""State tracking: parity, counting and words over groups, at up to six times the length of the training."""

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.recall.grids import LONGEST, STATES, state_scores, states
from fastweights.experiments.records import Records
from fastweights.experiments.scores import AccuracyScores, percent
from fastweights.experiments.series import CONTENDER_SERIES
from fastweights.reporting import GREY, Drawing, Table, draw, legend_of
from fastweights.training.run import Run

TITLE = "States: parity, counting and words over groups"
TEXT = (
    "A word is a sequence of moves, and every step asks for the state that all moves so far lead to. One layer "
    "without a convolution, trained on words of 40 letters. With β in (0, 1) a write can only shrink what a key "
    "retrieves; with β in (0, 2) it can also turn it round: a reflection, as parity and the exchange of two "
    "neighbours are. Counting to three and moving three things in a circle are rotations: two reflections in one step."
)
TEST = f"x{LONGEST}"
NAMES = {
    "parity": "parity (Z₂)",
    "counting": "counting modulo 3 (Z₃)",
    "words-s3": "S₃, any of 6 moves",
    "words-s5-swaps": "S₅, exchanges of two neighbours",
    "words-s5-cycles": "S₅, circles of three neighbours",
}
CHANCE = {"parity": 1 / 2, "counting": 1 / 3, "words-s3": 1 / 6, "words-s5-swaps": 1 / 120, "words-s5-cycles": 1 / 60}
"""The share of right answers of a guess among the states that words lead to; circles of three lead to half of S₅."""


def runs(options: ReproduceOptions = ReproduceOptions()) -> list[Run]:  # noqa: B008  a frozen value
    """Every problem with every model; models that decide a claim with three seeds, `quick` with one."""
    return [run for _, run in states(options)]


def contents(records: Records) -> tuple[Drawing | Table, ...]:
    """Accuracy by problem, model and length."""
    scores = state_scores(records)
    return drawing(scores), table(scores)


def table(scores: AccuracyScores) -> Table:
    """A row for each problem and model."""
    rows = []
    for problem, models in STATES.items():
        for model in models:
            cells = [percent(scores.of((problem, model), TEST, str(place))) for place in range(LONGEST)]
            if cells[0] != "–":
                rows.append((NAMES[problem], CONTENDER_SERIES[model].label, *cells))
    columns = ("problem", "model", *(f"letters {40 * place + 1}-{40 * place + 40}" for place in range(LONGEST)))
    caption = "Right states in per cent, by place in the word; ± is the standard deviation over three seeds."
    return Table("states", caption, columns, tuple(rows))


def drawing(scores: AccuracyScores) -> Drawing:
    """A panel for each problem, a line for each model."""

    def fill(figure: Figure) -> None:
        panels = figure.subplots(2, 3, sharex=True, sharey=True).flatten()
        for axes, problem in zip(panels, STATES, strict=False):
            draw_panel(axes, problem, scores)
        for axes in panels[::3]:
            axes.set_ylabel("right states (%)")
        legend = panels[-1]
        legend.axis("off")
        legend.legend(*legend_of(panels[:-1]), loc="center left", bbox_to_anchor=(-0.05, 0.5))
        for axes in panels[2:5]:
            axes.tick_params(labelbottom=True)
            axes.set_xlabel("letters / trained length of 40")

    return Drawing(
        "states",
        draw(10.5, 5.8, fill),
        "Right states by place in a word of 240 letters, after training on words of 40; one layer each. Dotted: "
        "guessing. Lines are means over seeds.",
        "Only memories whose β reaches 2 track parity and exchanges at every length; counting modulo 3, S3 and circles "
        "of three need two writes per step.",
    )


def draw_panel(axes: Axes, problem: str, scores: AccuracyScores) -> None:
    """The models of one problem, and what guessing would get."""
    for model in STATES[problem]:
        means = [scores.mean((problem, model), TEST, str(place)) for place in range(LONGEST)]
        points = [(place + 1, 100 * mean) for place, mean in enumerate(means) if mean is not None]
        if points:
            axes.plot(*zip(*points, strict=True), **CONTENDER_SERIES[model].ours())
    axes.axhline(100 * CHANCE[problem], color=GREY, linestyle=":", linewidth=1.2, zorder=1)
    axes.set(title=NAMES[problem], ylim=(-4, 106), xticks=range(1, LONGEST + 1))
