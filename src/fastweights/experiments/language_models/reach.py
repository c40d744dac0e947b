"""How far back a carried memory is of use: perplexity by the number of words after which it is emptied."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from fastweights.reporting.drawing import Drawing, draw
from fastweights.experiments.retrieval.series import BLACK, BLUE, VERMILION, Series

Reach = Mapping[int, float]
"""Perplexity by words; the last one is the whole text."""

SERIES = {
    "linear-sum-nopos-carried": Series("Linear, sum rule", VERMILION, "o"),
    "linear-delta-nopos-carried": Series("Linear, delta rule", BLUE, "D"),
    "transformer-xl": Series("Transformer-XL", BLACK, "s"),
}


def reach_figure(reaches: Mapping[str, Reach]) -> Drawing:
    """A line for each model that was trained with carried memory."""

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        for name, series in SERIES.items():
            if name in reaches:
                axes.plot(list(reaches[name].keys()), list(reaches[name].values()), **series.ours())
        ticks = sorted({words for reach in reaches.values() for words in reach})
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [f"{words:,}" for words in ticks[:-1]] + [f"{ticks[-1]:,}\n(whole text)"])
        axes.set(xlabel="words after which the memory is emptied", ylabel="perplexity, validation text")
        axes.grid(alpha=0.3)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)

    return Drawing(
        "reach",
        draw(9.2, 4.0, fill),
        "Models trained with carried memory, measured with memories that are emptied after so many words (WikiText-2, "
        "the size for CPUs). To the right the memory holds on longer.",
        "Perplexity against the number of words that a memory is carried over, for the sum rule, the delta rule and "
        "Transformer-XL.",
    )
