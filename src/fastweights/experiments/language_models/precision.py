"""Precision: language models trained in bfloat16 beside the same ones in float32."""

from dataclasses import replace
from typing import Literal

from fastweights.experiments.language_models.perplexities import measured, shown
from fastweights.experiments.language_models.presets import DATASETS, is_unchanged, model_of, size_of
from fastweights.experiments.language_models.tables import Table, on_text
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Coverage, Records
from fastweights.runs.record import Record
from fastweights.training.run import Run

TITLE = "Precision: training in bfloat16"
TEXT = (
    "Projections, feed-forward layers and softmax multiplied in bfloat16, which some processors do twice as fast and "
    "more; feature maps, memory and optimiser stay in float32. The same models, words, updates and seed in both."
)
ARGUMENTS = " --jobs 2"
Precision = Literal["float32", "bfloat16"]
PRECISIONS: tuple[Precision, ...] = ("float32", "bfloat16")
MODELS = {
    "transformer": "Transformer",
    "linear-delta": "Linear, delta rule",
    "dpfp-delta": "DPFP-1, delta rule",
    "linear-gated-nopos-carried": "Linear, gated delta rule, carried",
}


def data(options: ReproduceOptions) -> str:
    """Where the text is."""
    return options.data or DATASETS["cpu"]


def runs(options: ReproduceOptions) -> list[Run]:
    """Every model in both precisions; those in float32 are runs of other tables too."""
    if options.quick or options.seeds or options.scale != "cpu":
        raise ValueError("precisions are compared at the size for CPUs, with one seed and one length of training")
    prepared = on_text([f"cpu-{name}" for name in MODELS], options)
    return [in_precision(run, precision) for run in prepared for precision in PRECISIONS]


def in_precision(run: Run, precision: Precision) -> Run:
    """The run with its products in this precision."""
    return replace(run, training=replace(run.training, precision=precision))


def gathered(records: Records) -> dict[tuple[str, str], Record]:
    """The measured runs by model and precision."""
    return {
        (model_of(run), run.training.precision): record
        for run, record in records.items()
        if size_of(run) == "cpu"
        and model_of(run) in MODELS
        and is_unchanged(in_precision(run, "float32"))
        and run.task.is_measured(record.result)
    }


def coverage(records: Records) -> Coverage:
    """How many of the runs have a record."""
    return Coverage(list(gathered(records).values()), 2 * len(MODELS))


def contents(records: Records) -> tuple[Table, ...]:
    """Perplexities in both precisions, once one was trained in bfloat16."""
    found = gathered(records)
    rows = []
    for name, label in MODELS.items():
        if (name, "float32") in found and (name, "bfloat16") in found:
            exact, low = (measured(found[name, precision]) for precision in PRECISIONS)
            differences = [f"{100 * (after / before - 1):+.1f} %" for before, after in
                           ((exact.valid, low.valid), (exact.test, low.test))]  # fmt: skip
            cells = [shown(x) for x in (exact.valid, low.valid, exact.test, low.test)]
            rows.append((label, *cells, *differences))
    columns = ("model", "valid, float32", "valid, bfloat16", "test, float32", "test, bfloat16", "valid", "test")
    return (Table("precision", "Perplexity per word of WikiText-2, one seed.", columns, tuple(rows)),)
