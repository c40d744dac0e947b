"""A table of the paper's Tables 2-5: models by name, their runs, and perplexities beside the paper's."""

from collections.abc import Sequence
from dataclasses import dataclass

from fastweights.data.text.corpus import PUBLIC, open_corpus
from fastweights.experiments.language_models.perplexities import PAPER, Perplexities, perplexities
from fastweights.experiments.language_models.presets import DATASETS, PRESETS, for_corpus, is_unchanged
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Coverage, Records
from fastweights.reporting import Table
from fastweights.training.run import Run

__all__ = ["SHOWN_SIZES", "PaperTable", "Table", "on_text"]

SHOWN_SIZES = {
    "small": "small, WikiText-103",
    "medium": "medium, WikiText-103",
    "cpu": "cpu, WikiText-2",
}


def on_text(presets: Sequence[str], options: ReproduceOptions) -> list[Run]:
    """Presets for the text that tables of their size are about; another text is refused."""
    expected = DATASETS[presets[0].partition("-")[0]]
    corpus = open_corpus(options.data or expected)
    if len(corpus.vocabulary) != PUBLIC[expected].vocabulary_size:
        raise ValueError(
            f"{options.data}: this text has {len(corpus.vocabulary):,} words; tables at scale {options.scale} are "
            f"about {expected}, which has {PUBLIC[expected].vocabulary_size:,} (the tokenised one, not the raw)"
        )
    return [for_corpus(PRESETS[preset], corpus) for preset in presets]


@dataclass(frozen=True)
class PaperTable:
    """A comparison: what its models are called in the paper, the presets behind them, and the sizes it was made for."""

    name: str
    columns: tuple[str, ...]
    models: dict[tuple[str, ...], str]
    """The cells that tell a model from the others, and its preset without the size."""
    sizes: tuple[str, ...]

    def presets(self, scale: str = "cpu") -> list[str]:
        """The runs to train: every model at the size for CPUs, or at each of the paper's."""
        sizes = ("cpu",) if scale == "cpu" else self.sizes
        return [f"{size}-{model}" for size in sizes for model in self.models.values()]

    def runs(self, options: ReproduceOptions) -> list[Run]:
        """The runs of the table on its text; another text is refused before any training."""
        if options.quick or options.seeds:
            raise ValueError("--quick and --seeds are for figures; tables have one seed and one length of training")
        return on_text(self.presets(options.scale), options)

    def data(self, options: ReproduceOptions) -> str:
        """Where the text of the table is."""
        return options.data or DATASETS[self.presets(options.scale)[0].partition("-")[0]]

    def coverage(self, records: Records) -> Coverage:
        """How many of the models for CPUs have a record."""
        presets = self.presets()
        measured = {run.preset: record for run, record in records.items() if is_unchanged(run)}
        return Coverage([measured[preset] for preset in presets if preset in measured], len(presets))

    def tables(self, records: Records) -> tuple[Table, ...]:
        """The table with our perplexities beside the paper's."""
        return (self.table(perplexities(records)),)

    def table(self, ours: Perplexities) -> Table:
        """The paper's numbers at its sizes, then ours at every size that was trained."""
        trained = [size for size in SHOWN_SIZES if any(ours.get(size, model) for model in self.models.values())]
        heads = [f"{side}, paper, {SHOWN_SIZES[size]}" for size in self.sizes for side in ("valid", "test")]
        heads += [f"{side}, ours, {SHOWN_SIZES[size]}" for size in trained for side in ("valid", "test")]
        rows = []
        for labels, model in self.models.items():
            cells: list[str] = list(labels)
            for source, sizes in ((PAPER, self.sizes), (ours, trained)):
                for size in sizes:
                    found = source.get(size, model)
                    cells += ("–", "–") if found is None else found.cells()
            rows.append(tuple(cells))
        caption = "Perplexity per word, `<eos>` included."
        return Table(self.name, caption, (*self.columns, *heads), tuple(rows) if trained else ())
