"""Positions: what sinusoids cost models that are trained for minutes, and whether relative positions cost as much."""

from dataclasses import replace

from fastweights.evaluation.perplexity import perplexity_of
from fastweights.experiments.language_models.perplexities import Perplexities, perplexities, shown
from fastweights.experiments.language_models.presets import DATASETS, is_unchanged, model_of, size_of
from fastweights.experiments.language_models.tables import CPU_SIZES, Table, coverage_over_seeds, cpu_size, on_text
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Coverage, Records
from fastweights.training.run import Run

TITLE = "Positions: why the Transformer falls behind"
TEXT = (
    "Sinusoids are added to the embeddings of words, and a model has to learn to tell the two apart. Transformer-XL "
    "without its memory has the same softmax attention over the same words, but positions that leave embeddings alone: "
    "what lies between the two is what sinusoids cost softmax attention at this budget."
)
ARGUMENTS = " --jobs 2"
MODELS: dict[tuple[str, str], str] = {
    ("Transformer", "sinusoids"): "transformer",
    ("Transformer", "none"): "transformer-nopos",
    ("Transformer", "relative"): "transformer-relative",
    ("Linear, delta rule", "sinusoids"): "linear-delta",
    ("Linear, delta rule", "none"): "linear-delta-nopos",
}


def data(options: ReproduceOptions) -> str:
    """Where the text is."""
    return options.data or DATASETS["cpu"]


def runs(options: ReproduceOptions) -> list[Run]:
    """Every model on the text that is named, with the seeds that are named."""
    if options.quick or options.scale != "cpu":
        raise ValueError("positions are compared at the sizes for CPUs, with one length of training")
    prepared = on_text([f"{cpu_size(options)}-{name}" for name in MODELS.values()], options)
    return [
        replace(run, training=replace(run.training, seed=seed))
        for seed in options.seeds or (prepared[0].training.seed,)
        for run in prepared
    ]


def coverage(records: Records) -> Coverage:
    """How many of the models have a record, on both texts."""
    return coverage_over_seeds([f"{size}-{name}" for size in CPU_SIZES for name in MODELS.values()], records)


def contents(records: Records) -> tuple[Table, ...]:
    """A pair of columns for each text: perplexity, and what it is at the start of a segment and at its end."""
    found, starts = perplexities(records), segments(records)
    sizes = [size for size in CPU_SIZES if any(found.get(size, name) for name in MODELS.values())]
    rows = [
        (*labels, *(cell for size in sizes for cell in (tested(found, size, name), starts.get((size, name), "–"))))
        for labels, name in MODELS.items()
        if any(found.get(size, name) for size in sizes)
    ]
    heads = (head for size in sizes for head in (f"test, {CPU_SIZES[size]}", f"words 1-4 / 129-256, {CPU_SIZES[size]}"))
    caption = (
        "Test perplexity in a sliding window; and validation perplexity of the first and of the last words of "
        "segments that start with an empty memory, for the first of the seeds."
    )
    return (Table("positions", caption, ("model", "positions", *heads), tuple(rows)),)


def tested(found: Perplexities, size: str, name: str) -> str:
    """The test perplexity of a model."""
    model = found.get(size, name)
    return "–" if model is None else model.in_words("test")


def segments(records: Records) -> dict[tuple[str, str], str]:
    """By size and model, the perplexities of the first and of the last words of a segment."""
    return {
        (size_of(run), model_of(run)): " / ".join(
            shown(perplexity_of(record.result["segment"]["losses"][place])) for place in (0, -1)
        )
        for run, record in records.items()
        if is_unchanged(run) and "segment" in record.result
    }
