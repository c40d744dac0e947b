"""Growth: what becomes of a memory, and of its accumulator, over a million steps."""

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastweights.experiments.growth.curves import STATES, Curves, curves
from fastweights.experiments.growth.drift import drift_figure, is_drawn, language_model_table
from fastweights.experiments.growth.presets import LENGTHS, preset
from fastweights.experiments.memories import MEMORIES
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Records
from fastweights.experiments.series import MEMORY_SERIES
from fastweights.reporting import GREY, Drawing, Table, draw
from fastweights.training.run import Run

TITLE = "Growth: a million writes into one memory"
TEXT = (
    "Twelve random keys recur, each time with a fresh random value. The accumulator z of attention normalisation grows "
    "with the number of steps t, as the paper says. What follows is no explosion but a freeze: reads are divided by z, "
    "and so is what a write erases, so that after t steps a write moves its key by about 1/t of what Eq. 22 asks. "
    "Memories without z end where they were after a hundred steps."
)
SEEDS = (1, 2, 3)
SHOWN_STEPS = (100, 10_000, 1_000_000)


def runs(options: ReproduceOptions = ReproduceOptions()) -> list[Run]:  # noqa: B008  a frozen value
    """Every memory, in both precisions, with every seed; `quick` takes one seed."""
    seeds = options.seeds or (SEEDS[:1] if options.quick else SEEDS)
    return [preset("growth", name, state=state, seed=seed) for seed in seeds for state in STATES for name in MEMORIES]


def contents(records: Records) -> tuple[Drawing | Table, ...]:
    """The streams as a figure, in float32 and in bfloat16, and language models by position."""
    found = curves(records)
    models = found.language_models
    return (
        *((drawing(found),) if found.streams else ()),
        stream_table(found),
        rounded_table(found),
        *((drift_figure(models),) if any(is_drawn(one) for one in models) else ()),
        language_model_table(models),
    )


def drawing(found: Curves) -> Drawing:
    """λ, B, the error of retrieval and |W| against the step."""

    def fill(figure: Figure) -> None:
        panels = figure.subplots(2, 2)
        draw_panel(panels[0, 0], found, "landing", "landing λ of a write", goal=1.0)
        draw_panel(panels[0, 1], found, "balance", "balance B of a write", goal=1.0)
        draw_panel(panels[1, 0], found, "error", "error of the last value of each key")
        draw_panel(panels[1, 1], found, "weights", "size of the weights |W|")
        panels[0, 0].set(ylim=(1e-6, 20))
        panels[0, 1].set(ylim=(1e-6, 40))
        panels[1, 0].set(yscale="linear", ylim=(0, 1.3))
        panels[1, 1].set(ylim=(1, 3e4))
        for axes in panels[1]:
            axes.set(xlabel="steps")
        figure.legend(*panels[1, 1].get_legend_handles_labels(), loc="outside lower center", ncols=3)

    return Drawing(
        "growth",
        draw(9.6, 7.4, fill),
        "A stream of random values under twelve recurring random keys (DPFP-1, β = ½), medians over seeds. λ = 1: a "
        "write does what Eq. 22 asks; B = 1: it removes as much as it writes (App. A.2). Without any normalisation the "
        "memory overflows before step 100 and its lines end.",
        "On logarithmic axes λ and B of the memories with attention normalisation fall as one over the number of steps "
        "while their weights grow as its root; all others stay level for a million steps.",
    )


def draw_panel(axes: Axes, found: Curves, name: str, title: str, goal: float | None = None) -> None:
    """One quantity of every memory."""
    if goal is not None:
        axes.axhline(goal, color=GREY, linestyle=(0, (4, 3)), linewidth=1.1, zorder=1)
    for memory, entry in MEMORIES.items():
        points = [(t, x) for t, x in zip(found.steps(memory), found.column(memory, name), strict=False) if 0 < x < 1e6]
        meaningless = name == "balance" and entry.signed
        if points and not meaningless:
            axes.plot(*zip(*points, strict=True), markevery=4, **MEMORY_SERIES[memory].ours())
    axes.set(xscale="log", yscale="log", title=title, xlim=(0.8, 1.3e6))


def stream_table(found: Curves) -> Table:
    """Each quantity after 10², 10⁴ and 10⁶ steps, and how fast what grows does so."""
    rows = []
    for memory, entry in MEMORIES.items():
        if not found.steps(memory):
            continue
        balance = "–" if entry.signed else shown(found, memory, "balance")
        cells = (shown(found, memory, name) for name in ("landing", "error", "read", "weights", "overlap"))
        landing, error, read, weights, overlap = cells
        rows.append(
            (MEMORY_SERIES[memory].label, landing, balance, error, read, weights, overlap, growth_rates(found, memory))
        )
    steps = " / ".join(f"{step:,}" for step in SHOWN_STEPS)
    return Table(
        "growth",
        f"After {steps} steps of a random stream, state in float32, median over seeds. The last column is p of "
        "t^p from step 1,000 on.",
        ("memory", "λ", "B", "error of last values", "|y|", "|W|", "z·q", "growth of |W|, z, λ"),
        tuple(rows),
    )


def growth_rates(found: Curves, memory: str) -> str:
    """The exponents of |W|, z·q and λ; a dash for what the memory does not have, or no longer had."""
    rates = (found.exponent(memory, name) for name in ("weights", "overlap", "landing"))
    return ", ".join("–" if math.isnan(rate) else f"{rate:.2f}".replace("-0.00", "0.00") for rate in rates)


def shown(found: Curves, memory: str, name: str) -> str:
    """A quantity after 10², 10⁴ and 10⁶ steps."""
    if not found.column(memory, name):
        return "–"
    return " / ".join(digits(found.at(memory, name, step)) for step in SHOWN_STEPS)


def digits(value: float) -> str:
    """Three digits; a word for what overflowed."""
    if math.isnan(value):
        return "overflow"
    return f"{float(f'{value:.3g}'):,.0f}" if value >= 1000 else f"{value:.3g}"


def rounded_table(found: Curves) -> Table:
    """What rounding the state to bfloat16 at every step changes after 10,000 of them."""
    rows, last = [], LENGTHS["bfloat16"]
    for memory in MEMORIES:
        if not found.steps(memory, "bfloat16") or not found.steps(memory):
            continue
        cells = []
        for name in ("normaliser", "read", "error"):
            exact, rounded = found.at(memory, name, last), found.at(memory, name, last, "bfloat16")
            if not found.column(memory, name):
                cells.append("–")
            else:
                cells.append(f"{digits(exact)} → {digits(rounded)}")
        rows.append((MEMORY_SERIES[memory].label, *cells))
    return Table(
        "growth-bfloat16",
        f"After {last:,} steps: state in float32 → state rounded to bfloat16 after every step.",
        ("memory", "|z|", "|y|", "error of last values"),
        tuple(rows),
    )
