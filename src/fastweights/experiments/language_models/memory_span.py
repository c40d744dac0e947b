"""How far back a carried memory helps: perplexity by the number of words after which it is reset."""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastweights.evaluation.perplexity import perplexity_of
from fastweights.experiments.language_models.presets import is_unchanged, model_of, size_of
from fastweights.experiments.language_models.tables import CPU_SIZES
from fastweights.experiments.records import Records
from fastweights.reporting import BLACK, BLUE, GREEN, ORANGE, PURPLE, SKY, VERMILION, Drawing, Series, draw, legend_of

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

HIGHEST = 2.0
"""A panel ends at so many times its lowest perplexity: what breaks down lies above it."""


def memory_spans(records: Records, size: str = "cpu") -> dict[str, MemorySpan]:
    """Perplexities by the span of the memory, by the name of the model, at a size for CPUs."""
    found: dict[str, MemorySpan] = {}
    for run, record in records.items():
        if is_unchanged(run) and size_of(run) == size and "reach" in record.result:
            losses = {int(words): loss for words, loss in record.result["reach"].items()}
            losses[record.result["valid"]["tokens"]] = record.result["valid"]["loss"]
            found[model_of(run)] = {words: perplexity_of(losses[words]) for words in sorted(losses)}
    return found


def span_figure(records: Records) -> Drawing | None:
    """A panel for each text, a line for each model that was trained with carried memory; nothing without any."""
    panels = {text: spans for size, text in CPU_SIZES.items() if (spans := memory_spans(records, size))}
    if not panels:
        return None

    def fill(figure: Figure) -> None:
        all_axes = figure.subplots(1, len(panels), squeeze=False)[0]
        for axes, (text, spans) in zip(all_axes, panels.items(), strict=True):
            _draw_spans(axes, spans)
            axes.set_title(text)
        figure.legend(*legend_of(all_axes), loc="outside lower center", ncols=2)

    return Drawing(
        "reach",
        draw(4.8 + 4.4 * (len(panels) > 1), 5.4, fill),
        "Models trained with carried memory, measured with memories that are reset after so many words, each text in a "
        "panel of its own. To the right the memory holds on longer, at the last mark over the whole text. What is more "
        f"than {HIGHEST:g} times the lowest perplexity of a text lies above its panel.",
        "Perplexity against the number of words that a memory is carried over, for the sum rule, delta rules with and "
        "without centring, decay and resets, and Transformer-XL.",
    )


def _draw_spans(axes: Axes, spans: Mapping[str, MemorySpan]) -> None:
    for name, series in SERIES.items():
        if name in spans:
            axes.plot(list(spans[name].keys()), list(spans[name].values()), **series.ours())
    ticks = sorted({words for span in spans.values() for words in span})
    perplexities = [perplexity for span in spans.values() for perplexity in span.values()]
    if max(perplexities) > HIGHEST * min(perplexities):
        axes.set_ylim(0.95 * min(perplexities), HIGHEST * min(perplexities))
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [f"{words}" if words < 1000 else f"{words / 1000:.0f}k" for words in ticks])
    axes.set_xlabel("words after which the memory is reset")
    axes.set_ylabel("perplexity, validation text")
