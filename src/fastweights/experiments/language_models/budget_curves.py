"""Learning curves of language models, text by text: where do lines cross, and are they still moving at the end?"""

from collections.abc import Mapping

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.presets import is_unchanged, model_of, size_of
from fastweights.experiments.language_models.tables import (
    BLACK,
    BLUE,
    CPU_SIZES,
    GREEN,
    GREY,
    SKY,
    VERMILION,
    Drawing,
    Series,
    Table,
    draw,
    legend_of,
)
from fastweights.experiments.records import Records

Curve = Mapping[int, float]
"""The validation loss by the words read in training."""

LINES = {
    "transformer": Series("Transformer", BLACK, "s"),
    "linear-sum": Series("Linear, sum rule", VERMILION, "o"),
    "linear-delta": Series("Linear, delta rule", BLUE, "D"),
    "linear-delta-nopos": Series("Linear, delta rule, no positions", SKY, "^"),
    "linear-sum-nopos-carried": Series("Linear, sum rule, carried", VERMILION, "o", "--"),
    "linear-delta-nopos-carried": Series("Linear, delta rule, carried", BLUE, "D", "--"),
    "linear-gated-centred-nopos-carried": Series("Linear, gated delta rule, centred L2, carried", GREEN, "P", "--"),
    "transformer-relative": Series("Transformer-XL, truncated", GREY, "X"),
    "transformer-xl": Series("Transformer-XL, carried", GREY, "X", "--"),
}
PAIRS = (
    ("transformer", "linear-delta"),
    ("transformer-relative", "linear-delta-nopos"),
    ("linear-delta", "linear-sum"),
    ("linear-delta-nopos", "linear-delta"),
    ("linear-delta-nopos-carried", "linear-delta-nopos"),
    ("linear-sum-nopos-carried", "linear-sum-nopos"),
    ("transformer-xl", "transformer-relative"),
    ("transformer-xl", "linear-delta-nopos-carried"),
    ("transformer-xl", "linear-gated-centred-nopos-carried"),
)
"""Models that a claim compares."""
LEADS = (0.2, 0.5, 1.0)
"""The shares of the training at which a lead is shown."""
LAST = 0.2
"""The share of the training that tells whether a model is still getting better."""


def curves(records: Records, size: str) -> dict[str, Curve]:
    """The curves of the models of a size, with the seed of the presets."""
    found: dict[str, Curve] = {}
    for run, record in records.items():
        if size_of(run) != size or not is_unchanged(run) or "valid_loss" not in record.curve:
            continue
        assert isinstance(run.task, LanguageModellingConfig)
        words = run.training.batch_size * run.task.segment_length
        points = zip(record.curve["step"], record.curve["valid_loss"], strict=True)
        found[model_of(run)] = {
            int(step) * words: loss for step, loss in points if step is not None and loss is not None
        }
    return found


def crossing(first: Curve, second: Curve) -> int | None:
    """The words after which the one that is ahead at the end never falls behind again; None if it always was ahead."""
    both = sorted(set(first) & set(second))
    ahead = [first[words] < second[words] for words in both]
    behind = [words for words, is_ahead in zip(both, ahead, strict=True) if is_ahead != ahead[-1]]
    return max(behind) if behind else None


def leads(winner: Curve, other: Curve) -> list[float | None]:
    """By how much the winner's loss is lower at each share of the training; None before the first validation."""
    both = sorted(set(winner) & set(other))
    places = [[words for words in both if words <= share * both[-1]] for share in LEADS]
    return [other[reached[-1]] - winner[reached[-1]] if reached else None for reached in places]


def gain_at_the_end(curve: Curve) -> float | None:
    """By how much the loss fell over the last fifth of the training; None if no point lies before it."""
    end = max(curve)
    before = [words for words in curve if words <= (1 - LAST) * end]
    return curve[max(before)] - curve[end] if before else None


def crossings(records: Records) -> Table:
    """For each pair of models who ends ahead, by how much and since when, and what both gained in the last fifth."""
    rows = []
    for size in CPU_SIZES:
        found = curves(records, size)
        for name, other in PAIRS:
            if not (found.get(name) and found.get(other)) or not set(found[name]) & set(found[other]):
                continue
            first, second = found[name], found[other]
            end = max(set(first) & set(second))
            winner = name if first[end] < second[end] else other
            words = crossing(first, second)
            since = "from the first validation on" if words is None else f"after {words:,} words"
            lead = " / ".join(map(_in_nats, leads(*((first, second) if winner == name else (second, first)))))
            gains = [_in_nats(gain_at_the_end(curve)) for curve in (first, second)]
            rows.append((CPU_SIZES[size], f"{name} – {other}", winner, lead, since, *gains))
    heads = (
        "text", "models", "ahead at the end (validation loss)", "lead after a fifth / half / all", "since",
        "gain in the last fifth, first", "second",
    )  # fmt: skip
    caption = (
        "Where learning curves cross for the last time, and how much the models still gain at the end. The curves of "
        "truncated models are validated in independent segments, which costs them about a hundredth of their "
        "perplexity against the sliding window of the tables; those of carried ones with their memory."
    )
    return Table("budget-crossings", caption, heads, tuple(rows))


def curves_figure(records: Records) -> Drawing:
    """A panel for each text, a line for each model."""
    sizes = {size: found for size in CPU_SIZES if (found := curves(records, size))}

    def fill(figure: Figure) -> None:
        panels = figure.subplots(1, len(sizes), squeeze=False)[0]
        for axes, (size, found) in zip(panels, sizes.items(), strict=True):
            _draw_curves(axes, found)
            axes.set_title(CPU_SIZES[size])
        figure.legend(*legend_of(panels), loc="outside lower center", ncols=2)

    return Drawing(
        "learning-curves",
        draw(9.2, 5.4, fill),
        "Validation loss against the words read in training, each text in a panel of its own. Dashed: the memory is "
        "carried from segment to segment.",
        "Learning curves of language models on WikiText-2 and on Europarl.",
    )


def _draw_curves(axes: Axes, found: Mapping[str, Curve]) -> None:
    for name, series in LINES.items():
        if name in found:
            curve = found[name]
            axes.plot([words / 1e6 for words in curve], list(curve.values()), **series.ours())
    axes.set(xlabel="million words", ylabel="validation loss, nats per word")


def _in_nats(difference: float | None) -> str:
    return "–" if difference is None else f"{difference:.3f}"
