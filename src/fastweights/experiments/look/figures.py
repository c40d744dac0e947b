"""Figures of a look into a model: how full its memories are, what writes do, and perplexity by position."""

import math

import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastweights.experiments.look.looking import Looked
from fastweights.memory.layer_trace import LayerTrace
from fastweights.reporting.style import BLUE, GREY, ORANGE, Drawing, draw

SHADES = ("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#d8c400")
"""From the first layer to the last: dark to light, told apart in grey as well."""


def drawings(looked: Looked) -> tuple[Drawing, ...]:
    """All figures of the page."""
    return occupancy(looked), criteria(looked), by_position(looked)


def shade(number: int, count: int) -> str:
    """The colour of a layer."""
    return SHADES[round(number * (len(SHADES) - 1) / max(count - 1, 1))]


def short(name: str) -> str:
    """The name of a layer as a reader knows it: blocks.3.attention is layer 3."""
    digits = [part for part in name.split(".") if part.isdigit()]
    return f"layer {digits[0]}" if len(digits) == 1 else name or "the layer"


def occupancy(looked: Looked) -> Drawing:
    """Effective rank and |W| over the text."""

    def fill(figure: Figure) -> None:
        left, right = figure.subplots(1, 2)
        layers = looked.traces
        for number, (name, trace) in enumerate(layers.items()):
            colour = shade(number, len(layers))
            spectra = [*trace.spectra, trace.final]
            ranks = [spectrum.effective_rank.mean().item() for spectrum in spectra]
            left.plot([spectrum.write for spectrum in spectra], ranks, color=colour, label=short(name))
            norms = trace["weights"].mean(dim=(0, 1)).tolist()
            right.plot((trace.writes + 1).tolist(), norms, color=colour)
        left.set(title="directions that W uses", xlabel="writes", ylabel="effective rank")
        left.set_ylim(bottom=0)
        right.set(title="size of W", xlabel="writes", ylabel="|W|", xscale="log", yscale="log")
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=min(len(layers), 6))

    return Drawing(
        "occupancy",
        draw(9.6, 3.9, fill),
        "How full the memories are, mean over heads. The effective rank is exp(H(σ/Σσ)) of the singular values of W: "
        "a memory that holds one direction has 1, whatever its size.",
        "Effective rank and size of the weights of every layer over the text.",
    )


def criteria(looked: Looked) -> Drawing:
    """λ and B by position."""

    def fill(figure: Figure) -> None:
        panels = figure.subplots(1, 2)
        for axes, quantity, title in zip(panels, ("landing", "balance"), ("landing λ", "balance B"), strict=True):
            axes.axhline(1.0, color=GREY, linestyle=(0, (4, 3)), linewidth=1.1, zorder=1)
            for number, (name, trace) in enumerate(looked.traces.items()):
                draw_by_position(axes, trace, quantity, shade(number, len(looked.traces)), short(name))
            axes.set(title=title, xlabel="steps since the memory was empty", xscale="log", yscale="log")
            if not axes.get_lines()[1:]:
                axes.set(xscale="linear", yscale="linear")
        handles = panels[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=min(len(looked.traces), 6))

    return Drawing(
        "criteria",
        draw(9.6, 3.9, fill),
        "Medians over heads. λ = 1: after a write its key retrieves v_new of Eq. 22. B = 1: a write removes as much "
        "weight as it writes (App. A.2); not shown where it is zero or negative, as for keys of either sign.",
        "Landing and balance of the writes of every layer by position.",
    )


def draw_by_position(axes: Axes, trace: LayerTrace, quantity: str, colour: str, label: str) -> None:
    """The median of a quantity in stretches of positions that double."""
    positions, values = trace.positions[:, None].expand_as(trace[quantity]) + 1, trace[quantity]
    points, first = [], 1
    while first <= int(positions.max()):
        inside = values[(positions >= first) & (positions < 2 * first) & values.isfinite()]
        if inside.numel() and inside.median() > 0:
            points.append((first * math.sqrt(2), inside.median().item()))
        first *= 2
    if points:
        axes.plot(*zip(*points, strict=True), color=colour, label=label, marker="o", markersize=3.5)
        low, high = torch.tensor([y for _, y in points]).aminmax()
        if high / low < 1.5:
            axes.set_ylim(min(axes.get_ylim()[0], 0.3 * low.item()), max(axes.get_ylim()[1], 3 * high.item()))


def by_position(looked: Looked) -> Drawing:
    """Perplexity of stretches of the text: memory carried on, memory emptied."""
    rows = looked.perplexities()

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        places = range(len(rows))
        for shift, colour, column, label in ((-0.2, BLUE, 2, "memory carried on"), (0.2, ORANGE, 3, "memory emptied")):
            bars = axes.bar([p + shift for p in places], [row[column] for row in rows], 0.38, color=colour, label=label)
            axes.bar_label(bars, fmt="%.4g", fontsize=8.5, padding=2)
        axes.set_xticks(list(places), [f"{a:,}-{b:,}" for a, b, *_ in rows])
        axes.set(xlabel=f"{looked.subject.unit}s of the text", ylabel="perplexity")
        axes.margins(y=0.15)
        axes.grid(visible=False, axis="x")
        figure.legend(*axes.get_legend_handles_labels(), loc="outside lower center", ncols=2)

    length = looked.subject.segment_length
    return Drawing(
        "positions",
        draw(9.6, 3.7, fill),
        f"Perplexity by position. Emptied: the memory starts anew after every {length} {looked.subject.unit}s, so the "
        "difference is what the memory knows of the text before, or what it suffers from it.",
        "Perplexity of stretches of the text with the memory carried on and with it emptied.",
    )
