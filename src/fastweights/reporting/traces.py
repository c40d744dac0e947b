"""Figures of a recording: how full the memories of a model are, and whether their writes land and balance."""

import math
from typing import TYPE_CHECKING

from fastweights.memory import Recording
from fastweights.memory.layer_trace import LayerTrace
from fastweights.reporting.style import GREY, Drawing, draw

if TYPE_CHECKING:
    import matplotlib.axes
    import matplotlib.figure

SHADES = ("#440154", "#46327e", "#365c8d", "#277f8e", "#1fa187", "#4ac16d", "#a0da39", "#d8c400")
"""From the first layer to the last: dark to light, told apart in grey as well."""


def draw_traces(seen: Recording) -> tuple[Drawing, ...]:
    """Both figures; `drawing.save(folder)` writes one as PNG and SVG."""
    return occupancy(seen), criteria(seen)


def shade(number: int, count: int) -> str:
    """The colour of a layer."""
    return SHADES[round(number * (len(SHADES) - 1) / max(count - 1, 1))]


def layer_label(name: str) -> str:
    """The name of a layer as a reader knows it: blocks.3.attention is layer 3."""
    digits = [part for part in name.split(".") if part.isdigit()]
    return f"layer {digits[0]}" if len(digits) == 1 else name or "the layer"


def occupancy(seen: Recording) -> Drawing:
    """Effective rank and |W| over the writes."""

    def fill(figure: "matplotlib.figure.Figure") -> None:
        left, right = figure.subplots(1, 2)
        for number, (name, trace) in enumerate(seen.items()):
            colour = shade(number, len(seen))
            spectra = [*trace.spectra, trace.final]
            ranks = [spectrum.effective_rank.mean().item() for spectrum in spectra]
            marker = "o" if len(spectra) == 1 else ""
            left.plot(
                [spectrum.write for spectrum in spectra], ranks, color=colour, marker=marker, label=layer_label(name)
            )
            right.plot((trace.writes + 1).tolist(), trace["weights"].nanmean(dim=(0, 1)).tolist(), color=colour)
        left.set(title="directions that W uses", xlabel="writes", ylabel="effective rank")
        left.set_ylim(bottom=0)
        right.set(title="size of W", xlabel="writes", ylabel="|W|", xscale="log", yscale="log")
        figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=min(len(seen), 6))

    return Drawing(
        "occupancy",
        draw(9.6, 3.9, fill),
        "How full the memories are, mean over heads. The effective rank is exp(H(σ/Σσ)) of the singular values of W: "
        "a memory that holds one direction has 1, whatever its size.",
        "Effective rank and size of the weights of every layer over the writes.",
    )


def criteria(seen: Recording) -> Drawing:
    """λ and B by position."""

    def fill(figure: "matplotlib.figure.Figure") -> None:
        titles = {"landing": "landing λ"}
        if not all(trace.key_statistics.signed for trace in seen.values()):
            titles["balance"] = "balance B"
        panels = figure.subplots(1, len(titles), squeeze=False)[0]
        for axes, (quantity, title) in zip(panels, titles.items(), strict=True):
            axes.axhline(1.0, color=GREY, linestyle=(0, (4, 3)), linewidth=1.1, zorder=1)
            axes.set(title=title, xlabel="steps since the memory was empty", xscale="log", yscale="log")
            for number, (name, trace) in enumerate(seen.items()):
                if quantity == "balance" and trace.key_statistics.signed:
                    continue
                draw_by_position(axes, trace, quantity, shade(number, len(seen)), layer_label(name))
            low, high = axes.get_ylim()
            if high < 10 * low:
                axes.set_ylim(low / 3, high * 3)
        figure.legend(*panels[0].get_legend_handles_labels(), loc="outside lower center", ncols=min(len(seen), 6))

    return Drawing(
        "criteria",
        draw(9.6, 3.9, fill),
        "Medians over heads. λ = 1: after a write its key retrieves v_new of Eq. 22. B = 1: a write removes as much "
        "weight as it writes (App. A.2); not shown where it is zero, nor for keys of either sign.",
        "Landing and balance of the writes of every layer by position.",
    )


def draw_by_position(axes: "matplotlib.axes.Axes", trace: LayerTrace, quantity: str, colour: str, label: str) -> None:
    """The median of a quantity in stretches of positions that double."""
    values = trace[quantity]
    positions = trace.positions[:, None].expand_as(values) + 1
    points, first = [], 1
    while first <= int(positions.max()):
        inside = values[(positions >= first) & (positions < 2 * first) & values.isfinite()]
        if inside.numel() and inside.median() > 0:
            points.append((first * math.sqrt(2), inside.median().item()))
        first *= 2
    if points:
        axes.plot(*zip(*points, strict=True), color=colour, label=label, marker="o", markersize=3.5)
