"""Figures of a look into a model: those of its recording, and perplexity by position."""

from matplotlib.figure import Figure

from fastweights.experiments.look.looking import Looked
from fastweights.reporting.style import BLUE, ORANGE, Drawing, draw
from fastweights.reporting.traces import draw_traces


def drawings(looked: Looked) -> tuple[Drawing, ...]:
    """All figures of the page."""
    return *draw_traces(looked.traces), by_position(looked)


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
