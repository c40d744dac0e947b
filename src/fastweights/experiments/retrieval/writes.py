"""Normalisations on retrieval: ways to write that compete with the paper's, and where the write strength starts."""

from matplotlib.figure import Figure

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Records
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED
from fastweights.experiments.retrieval.names import STRENGTHS, WAYS_TO_WRITE
from fastweights.experiments.retrieval.outcomes import SOLVED, Outcome, Outcomes, median, outcomes
from fastweights.experiments.retrieval.presets import preset
from fastweights.reporting import BLUE, GREEN, ORANGE, SKY, Drawing, Series, Table, draw
from fastweights.runs.display import number
from fastweights.training.run import Run

TITLE = "Writes: normalisations on retrieval"
TEXT = (
    "Setting 2, DPFP-1, by normalisation and by the form of the write strength β. What the memory is asked for is "
    "replaced in full only if β is near 1, and σ takes many steps to get there; so β is a factor of its own, which "
    "would otherwise be mistaken for one of the normalisation."
)
ARGUMENTS = " --jobs 2"
SEEDS = (1, 2, 3)
MODEL = "dpfp1"
SIZES, QUICK_SIZE = (20, 60, 100, 200), 20
STRENGTH_SIZES = (20, 100)
"""Where the other forms of β are run."""
SHOWN_WAYS = {
    "delta": Series("sum (the paper)", ORANGE, "s"),
    "delta-l2": Series("L2", SKY, "o"),
    "delta-centred": Series("centred L2", BLUE, "D"),
    "nlms": Series("sum, NLMS step", GREEN, "^"),
}
SHOWN_STRENGTHS = {"": "σ(x)", "-2": "2 σ(x)", "-bias": "σ(x + b), b from 3"}


def runs(options: ReproduceOptions = ReproduceOptions()) -> list[Run]:  # noqa: B008  a frozen value
    """Small problems first, every seed; `quick` takes the smallest, with one seed."""
    seeds = options.seeds or (SEEDS[:1] if options.quick else SEEDS)
    return [
        preset("overwriting", MODEL, f"{way}{strength}", size, seed, AS_PUBLISHED)
        for size in ((QUICK_SIZE,) if options.quick else SIZES)
        for seed in seeds
        for strength in STRENGTHS
        if not strength or size in STRENGTH_SIZES
        for way in WAYS_TO_WRITE
    ]


def found(records: Records) -> Outcomes:
    """How these runs ended."""
    wanted = {run.training.seed for run in runs()}
    return Outcomes(tuple(o for o in outcomes(records).where("overwriting", MODEL).on(SIZES) if o.seed in wanted))


def contents(records: Records) -> tuple[Drawing | Table, ...]:
    """Best losses, and steps to the loss at which training stops; a figure once something new was run."""
    ended = found(records)
    drawn = any(ended.where(rule=way) for way in WAYS_TO_WRITE if way != "delta")
    return *((drawing(ended),) if drawn else ()), table(ended)


def table(ended: Outcomes) -> Table:
    """A row for each normalisation and form of β."""
    rows = []
    for strength, shown in SHOWN_STRENGTHS.items():
        for way, series in SHOWN_WAYS.items():
            of_way = ended.where(rule=f"{way}{strength}")
            if of_way:
                rows.append((series.label, shown, *(cell(of_way.where(num_keys=size)) for size in SIZES)))
    caption = (
        f"Best loss, median over seeds and range, and steps until it was below {SOLVED:g}. Training ends there, or "
        "when 1,100 steps brought nothing."
    )
    columns = ("normalisation", "β", *(f"S = {size}" for size in SIZES))
    return Table("writes", caption, columns, tuple(rows))


def cell(ended: Outcomes) -> str:
    """The steps to a solution if all seeds have one; otherwise the losses."""
    if not ended:
        return "–"
    losses, seeds = sorted(outcome.best for outcome in ended), f", {len(ended.all)} of {len(SEEDS)} seeds"
    more = "" if len(ended.all) == len(SEEDS) else seeds
    if all(loss < SOLVED for loss in losses):
        steps = sorted(outcome.steps for outcome in ended)
        return f"solved after {span([f'{step:,}' for step in steps])} steps{more}"
    return f"{number(median(losses))} ({span([number(loss) for loss in losses])}){more}"


def span(ordered: list[str]) -> str:
    """The first and the last of some, once if they are the same."""
    return ordered[0] if ordered[0] == ordered[-1] else f"{ordered[0]} to {ordered[-1]}"


def drawing(ended: Outcomes) -> Drawing:
    """Two panels: what limits a memory, and what limits its learning."""

    def fill(figure: Figure) -> None:
        losses, steps = figure.subplots(1, 2, width_ratios=(3, 2))
        for way, series in SHOWN_WAYS.items():
            of_way = ended.where(rule=way)
            losses.plot(of_way.sizes(), [of_way.best(size) for size in of_way.sizes()], **series.ours())
            times = {end: steps_of(ended.where(rule=f"{way}{end}", num_keys=QUICK_SIZE)) for end in STRENGTHS}
            shown = [(place, time) for place, time in enumerate(times.values()) if time is not None]
            if shown:
                steps.plot(*zip(*shown, strict=True), **{**series.ours(), "linestyle": ":"})
        losses.set(xlabel="keys S", ylabel="best loss, median over seeds", yscale="log", title="β = σ(x)")
        losses.set_xticks(SIZES)
        steps.set(ylabel=f"steps to {SOLVED:g}", title=f"S = {QUICK_SIZE}, by β", ylim=(0, None))
        steps.set_xticks(range(len(STRENGTHS)), [text.replace(", ", ",\n") for text in SHOWN_STRENGTHS.values()])
        steps.set_xlim(-0.4, len(STRENGTHS) - 0.6)
        losses.legend(frameon=False)

    return Drawing(
        "writes",
        draw(9.2, 4.2, fill),
        "Setting 2 with DPFP-1 by normalisation. Left: the best loss by the number of keys. Right: steps until the "
        "smallest problem is solved, by the form of the write strength.",
        "All normalisations solve small problems; with a write strength that starts near one each takes a third of "
        "the steps.",
    )


def steps_of(ended: Outcomes) -> float | None:
    """The median of the steps of those that were solved."""
    solved: list[Outcome] = [outcome for outcome in ended if outcome.best < SOLVED]
    return median([float(outcome.steps) for outcome in solved]) if solved else None
