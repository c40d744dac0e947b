"""bAbI: right answers by task and model, with 1,000 and with 10,000 training questions."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.questions.presets import MANY_EXAMPLES, MODELS, SOLVED, TASKS, grid, scores
from fastweights.experiments.records import Records
from fastweights.experiments.scores import AccuracyScores, percent
from fastweights.experiments.series import CONTENDER_SERIES
from fastweights.reporting import GREY, Drawing, Table, draw
from fastweights.runs.display import duration
from fastweights.training.run import Run

TITLE = "bAbI: question answering, one sentence a step"
TEXT = (
    "Each sentence of a story is one step, the words at their places summed up; questions are steps too. Two blocks "
    "with a short convolution over sentences (three for the tasks with several facts), 64 wide, no positions; a tenth "
    "of the training stories decides which step is taken. People and things move in most tasks, so what was written "
    "has to be replaced; in 4 and 15 to 20 nothing changes."
)
ARGUMENTS = " --data babi"
WITH_MANY = ("softmax", "sum", "delta", "nlms", "delta-l2")


def runs(options: ReproduceOptions = ReproduceOptions()) -> list[Run]:  # noqa: B008  a frozen value
    """Every task with every model; what decides a claim with three seeds, `quick` with 1,000 questions and one seed."""
    return [run for _, run in grid(options)]


def contents(records: Records) -> tuple[Drawing | Table, ...]:
    """Right answers by task and model, with few and with many questions, and how long a run takes."""
    answers = scores(records)
    return drawing(answers), table(answers, _times(records))


def table(answers: AccuracyScores, times: Mapping[tuple[str, str], str]) -> Table:
    """A row for each task."""
    rows = []
    for task, name in TASKS.items():
        cells = [percent(answers.of(("1000", str(task), model), "test")) for model in MODELS]
        cells += [percent(answers.of(("10000", str(task), model), "test")) for model in WITH_MANY]
        if set(cells) != {"–"}:
            each = " / ".join(times.get((examples, str(task)), "–") for examples in ("1000", "10000"))
            rows.append((f"qa{task} {name}", *cells, each))
    columns = (
        "task",
        *(f"1k, {_label(model)}" for model in MODELS),
        *(f"10k, {_label(model)}" for model in WITH_MANY),
        "time of a run, 1k / 10k",
    )
    caption = "Right answers to the 1,000 test questions in per cent; ± is the standard deviation over three seeds."
    return Table("babi", caption, columns, tuple(rows))


def _label(model: str) -> str:
    return CONTENDER_SERIES[model].label.replace(" (the paper's)", "")


def _times(records: Records) -> dict[tuple[str, str], str]:
    """The mean time of training with the delta rule and L2 on one core, by number of questions and task."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for (examples, task, model), run in grid():
        if model == "delta-l2" and run in records:
            seconds.setdefault((examples, task), []).append(float(records[run].result["seconds"]))
    return {key: duration(sum(each) / len(each)) for key, each in seconds.items()}


def drawing(answers: AccuracyScores) -> Drawing:
    """A row of points for each task, with 1,000 questions above and 10,000 below."""

    def fill(figure: Figure) -> None:
        few, many = figure.subplots(1, 2, width_ratios=(20, 7), sharey=True)
        draw_points(few, "1000", tuple(TASKS), MODELS, answers)
        few.set(title="1,000 training questions", ylabel="right answers (%)")
        draw_points(many, "10000", MANY_EXAMPLES, WITH_MANY, answers)
        many.set(title="10,000")
        figure.legend(*many.get_legend_handles_labels(), loc="outside lower center", ncols=3)

    return Drawing(
        "babi",
        draw(11.0, 4.8, fill),
        f"Right answers to the test questions of each task of bAbI. Dotted: {SOLVED:.0%}, from where on a task counts "
        "as solved. Points are means over seeds.",
        "With 10,000 questions the delta rule solves the tasks about people and things that move.",
    )


def draw_points(
    axes: Axes, examples: str, tasks: tuple[int, ...], models: tuple[str, ...], answers: AccuracyScores
) -> None:
    """The models of a task beside each other."""
    for number, model in enumerate(models):
        shift = 0.14 * (number - (len(models) - 1) / 2)
        means = [answers.mean((examples, str(task), model), "test") for task in tasks]
        points = [(place + shift, 100 * mean) for place, mean in enumerate(means) if mean is not None]
        if points:
            style = CONTENDER_SERIES[model].ours() | {"linestyle": "none", "markersize": 7.5}
            axes.plot(*zip(*points, strict=True), **style)
    axes.axhline(100 * SOLVED, color=GREY, linestyle=":", linewidth=1.2, zorder=1)
    axes.set_xticks(range(len(tasks)), [f"qa{task}" for task in tasks], fontsize=8.5, rotation=45)
    axes.set(ylim=(0, 104), xlim=(-0.6, len(tasks) - 0.4))
    axes.grid(visible=False, axis="x")
    for place in range(1, len(tasks)):
        axes.axvline(place - 0.5, color="#eeeeee", linewidth=0.8, zorder=0)
