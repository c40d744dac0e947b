"""Contrast: what a write does under each normalisation, in trained memories and on a random stream."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastweights.experiments.contrast.outcomes import TracedMemories, outcomes
from fastweights.experiments.contrast.presets import preset
from fastweights.experiments.growth import presets as growth
from fastweights.experiments.memories import MEMORIES
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Records
from fastweights.experiments.series import MEMORY_SERIES
from fastweights.reporting import GREY, Drawing, Table, draw
from fastweights.training.run import Run

TITLE = "Contrast: what a write does"
TEXT = (
    "A write has two criteria. Balance B is the paper's: as much weight is removed as is written (App. A.2). Landing λ "
    "asks whether the key then retrieves what was written, v_new of Eq. 22. Sum normalisation has the first by "
    "construction and the second only if keys are one-hot; L2 has the second; NLMS on sum-normalised keys has both."
)
SEEDS, QUICK = (1, 2, 3), ("delta-sum", "delta-l2", "nlms-sum")
WRITE_COLUMNS = (
    *("memory", "loss", "steps trained", "β", "|k|²", "cosine of keys", "B", "λ", "|v̄|", "contrast", "error after"),
    "random: λ, B",
)
RANDOM_STEP = 316
"""The step of the random stream that the table shows: its keys have all come often."""


def runs(options: ReproduceOptions = ReproduceOptions()) -> list[Run]:  # noqa: B008  a frozen value
    """Every memory with every seed, trained and on a random stream; `quick` takes three memories and one seed."""
    names = QUICK if options.quick else tuple(MEMORIES)
    seeds = options.seeds or (SEEDS[:1] if options.quick else SEEDS)
    trained = [preset("contrast", name, seed=seed) for seed in seeds for name in names]
    return [*trained, *(growth.preset("growth", name, seed=seed) for seed in seeds for name in names)]


def contents(records: Records) -> tuple[Drawing | Table, ...]:
    """λ, B and the loss beyond the training length; writes under new and repeated keys, and the loss by length."""
    found = outcomes(records)
    return *((drawing(found),) if found.results else ()), writes_table(found), length_table(found)


def drawing(found: TracedMemories) -> Drawing:
    """Three panels: landing and balance by step, loss by length."""

    def fill(figure: Figure) -> None:
        (landing, balance), (loss, legend) = figure.subplots(2, 2)
        for axes, quantity, title in ((landing, "landing", "landing λ"), (balance, "balance", "balance B")):
            axes.axhline(1.0, color=GREY, linestyle=(0, (4, 3)), linewidth=1.1, zorder=1)
            axes.set(title=title, xlabel="step of the sequence")
            draw_lines(axes, {name: found.by_step(name, quantity) for name in MEMORIES}, quantity)
        draw_lines(loss, {name: found.by_length(name) for name in MEMORIES}, "loss")
        loss.axvline(40, color=GREY, linestyle=":", linewidth=1.1, zorder=1)
        loss.set(title="loss by length", xlabel="pairs written (trained at 40)")
        legend.set_axis_off()
        legend.legend(*loss.get_legend_handles_labels(), loc="center left", fontsize=11)

    return Drawing(
        "contrast",
        draw(9.2, 7.0, fill),
        "Memories that were trained to overwrite (setting 2, S = 20, DPFP-1, median over seeds), in sequences up to "
        "thirty times as long. Dashed: the goal of each criterion. Centred keys have either sign, so that a balance "
        "means nothing for them.",
        "Landing stays at one for L2, centred L2, NLMS and the trained sum normalisation and falls as one over the "
        "number of steps under attention normalisation; so does its balance, from above one to far below.",
    )


def draw_lines(axes: Axes, points: dict[str, list[tuple[int, float]]], quantity: str) -> None:
    """A line for every memory that has the quantity, on logarithmic axes."""
    for name, entry in MEMORIES.items():
        shown = [(x, y) for x, y in points[name] if y > 0]
        if shown and not (quantity == "balance" and entry.signed):
            axes.plot(*zip(*shown, strict=True), **MEMORY_SERIES[name].ours())
    axes.set(xscale="log", yscale="log")


def writes_table(found: TracedMemories) -> Table:
    """Medians for new / repeated keys of trained memories, and the two criteria on the random stream."""
    rows = []
    for name, entry in MEMORIES.items():
        if name not in found.results:
            continue

        def both(quantity: str, name: str = name) -> str:
            return " / ".join(digits(found.write(name, kind, quantity)) for kind in ("new", "repeated"))

        random = [digits(found.streams.at(name, quantity, RANDOM_STEP)) for quantity in ("landing", "balance")]
        rows.append(
            (
                MEMORY_SERIES[name].label,
                digits(found.loss_at(name, 40)),
                " ".join(str(steps) for steps in found.steps(name)),
                both("strength"),
                both("key_square"),
                digits(found.crosstalk(name)),
                "–" if entry.signed else both("balance"),
                both("landing"),
                both("retrieved"),
                both("contrast"),
                both("error_after"),
                f"{random[0]}, {'–' if entry.signed else random[1]}",
            )
        )
    return Table(
        "contrast",
        "Memories trained on setting 2 with S = 20: medians over writes under new / repeated keys and over seeds. The "
        f"last column: λ and B of the same memory, untrained, at step {RANDOM_STEP} of a random stream.",
        WRITE_COLUMNS,
        tuple(rows),
    )


def length_table(found: TracedMemories) -> Table:
    """The loss of every memory at every length."""
    lengths = next((tuple(x for x, _ in found.by_length(name)) for name in found.results), ())
    rows = tuple(
        (MEMORY_SERIES[name].label, *(digits(loss) for _, loss in found.by_length(name)))
        for name in MEMORIES
        if name in found.results
    )
    return Table(
        "contrast-length",
        "Loss of the same memories on sequences of other lengths; they were trained on 40 pairs.",
        ("memory", *(f"{length} pairs" for length in lengths)),
        rows,
    )


def digits(value: float) -> str:
    """Three digits, without the noise of numbers that are zero."""
    if math.isnan(value):
        return "–"
    return "0" if abs(value) < 1e-6 else f"{value:.3g}"
