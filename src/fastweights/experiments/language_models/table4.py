"""Table 4: without truncating the context, and how far back a carried memory helps (Sec. 6.3)."""

from dataclasses import replace

from fastweights.experiments.language_models.memory_span import MemorySpan, memory_spans, span_figure
from fastweights.experiments.language_models.perplexities import Perplexities, is_lower, perplexities
from fastweights.experiments.language_models.presets import PRESETS
from fastweights.experiments.language_models.tables import Drawing, PaperTable, Table
from fastweights.experiments.records import Records

TITLE = "Table 4: without truncating the context"
TEXT = (
    "The memory is carried from each segment to the next, in training as in evaluation, and reset when the "
    "text begins anew. Gradients stay inside a segment. The published gradient of the sum rule left out "
    "what the carried memory contributes to queries; here it is complete, except in the row that shows whether that "
    "matters. Other rows that the paper does not have ask what a memory needs to gain from being carried on: writes "
    "that land, a learned decay, memories that last eight segments in training (reset at random, or all together), or "
    "that are written anew by the present weights. Beside each model stands its own truncated form: the same model "
    "trained on segments alone, measured with a sliding window."
)
ARGUMENTS = " --threads 1"
MODELS: dict[tuple[str, ...], str] = {
    ("Linear", "sum"): "linear-sum-nopos-carried",
    ("Linear, the published gradient", "sum"): "linear-sum-nopos-carried-published",
    ("Linear", "delta"): "linear-delta-nopos-carried",
    ("Linear, centred L2", "delta"): "linear-delta-centred-nopos-carried",
    ("Linear", "gated delta"): "linear-gated-nopos-carried",
    ("Linear, centred L2", "gated delta"): "linear-gated-centred-nopos-carried",
    ("Linear, memories reset at random", "delta"): "linear-delta-nopos-carried-resets",
    ("Linear, columns of 8 segments", "delta"): "linear-delta-nopos-carried-columns",
    ("Linear, memories rewritten by the present weights", "delta"): "linear-delta-nopos-carried-rewritten",
    ("Linear, centred L2, memories reset at random", "delta"): "linear-delta-centred-nopos-carried-resets",
    ("Transformer-XL", "–"): "transformer-xl",
}
TRUNCATED = {
    model: form
    for model in MODELS.values()
    if (form := model.partition("-carried")[0]) != model and f"cpu-{form}" in PRESETS
}
"""The same model without `-carried`, where there is one: the memories of fixed size."""
DECIDING = tuple(
    form
    for model in ("linear-gated-nopos-carried", "linear-gated-centred-nopos-carried")
    for form in (model, TRUNCATED[model])
)
"""Carried and truncated forms that are so close that one seed does not tell which is ahead."""
WITH_SOFTMAX = {"transformer-xl": "transformer-relative"}
TABLE = PaperTable("table4", ("model", "update rule"), MODELS, ("medium",), TRUNCATED | WITH_SOFTMAX, DECIDING)
runs, coverage, data = TABLE.runs, TABLE.coverage, TABLE.data


def contents(records: Records) -> tuple[Drawing | Table, ...]:
    """How far back memories help; the tables of the three texts, that of WikiText-2 with what carrying gains."""
    ours, *others = TABLE.contents(records)
    found, spans = perplexities(records), memory_spans(records)
    rows = tuple(
        (*row, ahead(found, model), best_span(spans.get(model)))
        for row, model in zip(ours.rows, MODELS.values(), strict=bool(ours.rows))
    )
    ours = replace(ours, columns=(*ours.columns, "carried is ahead in", "lowest if reset"), rows=rows)
    figure = span_figure(records)
    return *((figure,) if figure else ()), ours, *others


def ahead(found: Perplexities, model: str) -> str:
    """On which texts a carried memory has the lower perplexity than its own truncated form, and where it is open."""
    carried, truncated = found.get("cpu", model), found.get("cpu", TABLE.truncated.get(model, ""))
    if carried is None or truncated is None:
        return "–"
    lower = {text: is_lower(carried, truncated, text) for text in ("valid", "test")}
    said = " and ".join(text for text, is_ahead in lower.items() if is_ahead) or "neither"
    unsure = " and ".join(text for text, is_ahead in lower.items() if is_ahead is None)
    if len(unsure) == 0:
        return said
    return f"{unsure}: undecided" if said == "neither" else f"{said}; {unsure}: undecided"


def best_span(span: MemorySpan | None) -> str:
    """After how many words a memory should be reset; never, if its perplexity falls up to the end of the text."""
    if span is None:
        return "–"
    best = min(span, key=lambda words: span[words])
    return "never" if best == max(span) else f"after {best:,} words"
