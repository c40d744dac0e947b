"""Tables 2-5 of the paper: which language models each one compares, and what came of them (Sec. 6.3, App. E)."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from fastweights.data.text.corpus import PUBLIC
from fastweights.data.text.tokenizers import Words
from fastweights.cli.language_model import set_threads, shared_corpus
from fastweights.cli.options import TableOptions
from fastweights.experiments.language_models.records import (
    TEXTS,
    LanguageModelRecords,
    carry_out,
    perplexities,
    reaches,
    size_of,
)
from fastweights.runs.training_display import TrainingDisplay
from fastweights.reporting.drawing import Drawing
from fastweights.experiments.language_models.reach import reach_figure
from fastweights.experiments.language_models.rules_figure import rules_figure
from fastweights.experiments.language_models.perplexities import PAPER, Perplexities
from fastweights.reporting.report import Section, Table
from fastweights.training.distributed import World

SHOWN_SIZES = {
    "small": "small, WikiText-103",
    "medium": "medium, WikiText-103",
    "cpu": "cpu, WikiText-2",
}


@dataclass(frozen=True)
class PaperTable:
    """A comparison: what its models are called in the paper, the presets behind them, and the sizes it was made for."""

    name: str
    title: str
    text: str
    columns: tuple[str, ...]
    models: dict[tuple[str, ...], str]
    """The cells that tell a model from the others, and its preset without the size."""
    sizes: tuple[str, ...]

    def presets(self, scale: str) -> list[str]:
        """What has to be trained: every model at the size for CPUs, or at each of the paper's."""
        sizes = ("cpu",) if scale == "cpu" else self.sizes
        return [f"{size}-{model}" for size in sizes for model in self.models.values()]


TABLES = {
    table.name: table
    for table in (
        PaperTable(
            "table2",
            "Table 2: update rules",
            "Every model sees the same tokens in the same order. The delta rule should be below the sum rule with "
            "each feature map, and the Transformer, which keeps every key and value of its window, below both.",
            ("model", "update rule"),
            {
                ("Transformer", "–"): "transformer",
                ("Linear", "sum"): "linear-sum",
                ("Linear", "delta"): "linear-delta",
                ("Performer", "sum"): "performer-sum",
                ("Performer", "delta"): "performer-delta",
            },
            ("small", "medium"),
        ),
        PaperTable(
            "table3",
            "Table 3: positions and attention normalisation",
            "The Linear Transformer with the delta rule, with and without positional encodings and attention "
            "normalisation. The order of writes is in the memory itself, so positions may not be needed.",
            ("positions", "attention normalisation"),
            {
                ("yes", "yes"): "linear-delta-attnnorm",
                ("no", "yes"): "linear-delta-attnnorm-nopos",
                ("yes", "no"): "linear-delta",
                ("no", "no"): "linear-delta-nopos",
            },
            ("medium",),
        ),
        PaperTable(
            "table4",
            "Table 4: without truncating the context",
            "The memory is carried from each segment to the next, in training as in evaluation, and reset when the "
            "text begins anew. Gradients stay inside a segment. The published gradient of the sum rule left out "
            "what the carried memory contributes to queries; here it is complete.",
            ("model", "update rule"),
            {
                ("Linear", "sum"): "linear-sum-nopos-carried",
                ("Linear", "delta"): "linear-delta-nopos-carried",
                ("Transformer-XL", "–"): "transformer-xl",
            },
            ("medium",),
        ),
        PaperTable(
            "table5",
            "Table 5: more features than dimensions",
            "Feature maps with twice as many features as keys have components: the memories are larger than those of "
            "Table 2.",
            ("model", "update rule"),
            {
                ("Transformer", "–"): "transformer",
                ("Performer", "sum"): "performer-wide-sum",
                ("Performer", "delta"): "performer-wide-delta",
                ("DPFP-1", "sum"): "dpfp-sum",
                ("DPFP-1", "delta"): "dpfp-delta",
            },
            ("small",),
        ),
    )
}


def report(name: str, records: LanguageModelRecords) -> Section:
    """A table of the paper with our perplexities beside its own."""
    table = TABLES[name]
    ours = perplexities(records)
    drawings: tuple[Drawing, ...] = ()
    if name == "table2" and ours.found.get("cpu"):
        drawings = (rules_figure(ours),)
    if name == "table4" and (carried := reaches(records)):
        drawings = (reach_figure(carried),)
    return Section(table.title, (table.text,), drawings, (perplexity_table(table, ours),))


def perplexity_table(table: PaperTable, ours: Perplexities) -> Table:
    """The paper's numbers at its sizes, then ours at every size that was trained."""
    trained = [size for size in SHOWN_SIZES if any(ours.get(size, model) for model in table.models.values())]
    heads = [f"{side}, paper, {SHOWN_SIZES[size]}" for size in table.sizes for side in ("valid", "test")]
    heads += [f"{side}, ours, {SHOWN_SIZES[size]}" for size in trained for side in ("valid", "test")]
    rows = []
    for labels, model in table.models.items():
        cells: list[str] = list(labels)
        for source, sizes in ((PAPER, table.sizes), (ours, trained)):
            for size in sizes:
                found = source.get(size, model)
                cells += ("–", "–") if found is None else found.cells()
        rows.append(tuple(cells))
    return Table(
        table.name,
        "Perplexity per word, `<eos>` included.",
        (*table.columns, *heads),
        tuple(rows) if trained else (),
    )


def train_tables(names: Sequence[str], results: Path, options: TableOptions) -> None:
    """Train and measure the models of some tables that have no record, one after the other."""
    presets = dict.fromkeys(preset for name in names for preset in TABLES[name].presets(options.scale))
    if not presets:
        return
    set_threads(options.threads)
    expected = TEXTS[size_of(next(iter(presets)))]
    source = options.data or expected
    with World.join(options.device) as world:
        corpus = shared_corpus(source, Words(), world=world)
        if len(corpus.vocabulary) != PUBLIC[expected].vocabulary_size:
            raise ValueError(
                f"{source}: this text has {len(corpus.vocabulary):,} words; tables at scale {options.scale} are about "
                f"{expected}, which has {PUBLIC[expected].vocabulary_size:,} (the tokenised one, not the raw)"
            )
        display = TrainingDisplay(corpus.vocabulary.splitter.unit, quiet=not world.first)
        for preset in presets:
            try:
                done = carry_out(preset, corpus, results, world=world, display=display, source=source)
            except FloatingPointError as error:
                display.say(f"{preset}: {error}")
                continue
            display.say(f"{preset}: done" if done else f"{preset}: left to the process that is at it")
