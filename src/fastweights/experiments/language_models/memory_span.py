"""How far back a carried memory helps: perplexity by the number of words after which it is reset."""

from collections.abc import Mapping

from matplotlib.figure import Figure

from fastweights.evaluation.perplexity import perplexity_of
from fastweights.experiments.language_models.presets import is_unchanged, model_of, size_of
from fastweights.experiments.records import Records
from fastweights.reporting import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, Drawing, Series, draw

MemorySpan = Mapping[int, float]
"""Perplexity by words; the last one is the whole text."""

SERIES = {
    "linear-sum-nopos-carried": Series("Linear, sum rule", VERMILION, "o"),
    "linear-delta-nopos-carried": Series("Linear, delta rule", BLUE, "D"),
    "linear-delta-centred-nopos-carried": Series("Linear, delta rule, centred L2", SKY, "^"),
    "linear-gated-nopos-carried": Series("Linear, gated delta rule", ORANGE, "v"),
    "linear-gated-centred-nopos-carried": Series("Linear, gated delta rule, centred L2", GREEN, "P"),
    "linear-delta-nopos-carried-resets": Series("Linear, delta rule, random resets", BLUE, "D", "--"),
    "linear-delta-nopos-carried-columns": Series("Linear, delta rule, short columns", BLUE, "D", ":"),
    "linear-delta-nopos-carried-rewritten": Series("Linear, delta rule, rewritten", PURPLE, "X", "--"),
    "linear-delta-centred-nopos-carried-resets": Series("Linear, centred L2, random resets", SKY, "^", "--"),
    "transformer-xl": Series("Transformer-XL", BLACK, "s"),
}


def memory_spans(records: Records) -> dict[str, MemorySpan]:
    """Perplexities by the span of the memory, by the name of the model, at the size for CPUs."""
    found: dict[str, MemorySpan] = {}
    for run, record in records.items():
        if is_unchanged(run) and size_of(run) == "cpu" and "reach" in record.result:
            losses = {int(words): loss for words, loss in record.result["reach"].items()}
            losses[record.result["valid"]["tokens"]] = record.result["valid"]["loss"]
            found[model_of(run)] = {words: perplexity_of(losses[words]) for words in sorted(losses)}
    return found


def span_figure(spans: Mapping[str, MemorySpan]) -> Drawing:
    """A line for each model that was trained with carried memory."""

    def fill(figure: Figure) -> None:
        axes = figure.subplots()
        for name, series in SERIES.items():
            if name in spans:
                axes.plot(list(spans[name].keys()), list(spans[name].values()), **series.ours())
        ticks = sorted({words for span in spans.values() for words in span})
        axes.set_xscale("log", base=2)
        axes.set_xticks(ticks, [f"{words:,}" for words in ticks[:-1]] + [f"{ticks[-1]:,}\n(whole text)"])
        axes.set(xlabel="words after which the memory is reset", ylabel="perplexity, validation text")
        axes.grid(alpha=0.3)
        axes.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=3, frameon=False)

    return Drawing(
        "reach",
        draw(9.2, 4.0, fill),
        "Models trained with carried memory, measured with memories that are reset after so many words (WikiText-2, "
        "the size for CPUs). To the right the memory holds on longer.",
        "Perplexity against the number of words that a memory is carried over, for the sum rule, delta rules with and "
        "without centring, decay and resets, and Transformer-XL.",
    )
