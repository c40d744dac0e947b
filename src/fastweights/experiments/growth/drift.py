"""Language models far beyond the length of training: a memory that is carried on beside one that is reset."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import fmean

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullFormatter

from fastweights.experiments.growth.positions import Positions, by_model
from fastweights.experiments.language_models.tables import GREY, Drawing, Table, draw, legend_of
from fastweights.experiments.model_scores import signed_over_seeds
from fastweights.experiments.series import MEMORY_SERIES

RATIOS = (0.9, 1, 1.2, 1.5, 2, 3, 5, 10)
"""Ticks of the figure."""


def is_drawn(one: Positions) -> bool:
    """True for models without positions that never carried a memory in training."""
    return one.memory in MEMORY_SERIES and not one.carried_in_training and not one.encoded


def drift_figure(models: Sequence[Positions]) -> Drawing:
    """A panel for each map: perplexity with the memory carried on over that with it reset, by position."""
    drawn = [one for one in models if is_drawn(one)]
    maps = sorted({one.feature_map for one in drawn}, reverse=True)

    def fill(figure: Figure) -> None:
        panels = figure.subplots(1, len(maps), squeeze=False, sharey=True)[0]
        for axes, name in zip(panels, maps, strict=True):
            draw_ratios(axes, [one for one in drawn if one.feature_map == name])
            axes.set(title=name, xlabel="words since the start of the text")
        panels[0].set_ylabel("perplexity, carried on / reset")
        figure.legend(*legend_of(panels), loc="outside lower center", ncols=3)

    return Drawing(
        "drift",
        draw(9.2, 4.6, fill),
        "Language models trained on segments of 256 words, without positions: perplexity on a long text with the "
        "memory carried on, over that with it reset every 256 words. Above 1 the memory that is carried on does harm. "
        "Means over seeds.",
        "A line for each memory and a panel for each feature map; a line that rises belongs to a memory that does more "
        "harm the longer it is carried on.",
    )


def draw_ratios(axes: Axes, models: Sequence[Positions]) -> None:
    """A line for each memory, its points in the middle of their stretches."""
    axes.axhline(1, color=GREY, linestyle=(0, (4, 3)), linewidth=1.1, zorder=1)
    for memory, series in MEMORY_SERIES.items():
        seeds = [one for one in models if one.memory == memory]
        if not seeds:
            continue
        ratios = means([[on / off for on, off in zip(one.carried, one.reset, strict=True)] for one in seeds])
        middles = [(max(start, 1) * end) ** 0.5 for start, end in pairwise(seeds[0].edges)]
        axes.plot(middles, ratios, **series.ours())
    axes.set(xscale="log", yscale="log")
    axes.set_yticks(RATIOS)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda ratio, _: f"{ratio:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def language_model_table(models: Sequence[Positions]) -> Table:
    """Perplexity by position, the mean over seeds: the memory carried on, and reset after every segment."""
    edges = max((one.edges for one in models), key=len, default=())
    heads = tuple(f"words {first:,}-{last:,}" for first, last in pairwise(edges))
    rows = []
    for seeds in by_model(models).values():
        first = seeds[0]
        carried, reset = means([one.carried for one in seeds]), means([one.reset for one in seeds])
        pairs = [f"{on:.1f} / {off:.1f}" for on, off in zip(carried, reset, strict=True)]
        trained = "carried on" if first.carried_in_training else "segments"
        dashes = ["–"] * (len(heads) - len(pairs))
        drift = f"{signed_over_seeds([100 * one.drift for one in seeds])} %"
        rows.append((first.label, trained, *pairs, *dashes, drift, str(len(seeds))))
    return Table(
        "growth-language-models",
        "Perplexity of trained language models by position in the validation text: memory carried on / reset after "
        "every segment, means over seeds; the last column but one compares them on the last stretch.",
        ("memory", "trained with", *heads, "difference", "seeds"),
        tuple(rows),
        wide=True,
    )


def means(seeds: Sequence[Sequence[float]]) -> list[float]:
    """The mean over seeds, stretch by stretch."""
    return [fmean(column) for column in zip(*seeds, strict=True)]
