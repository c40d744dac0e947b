"""What Tables 2-5 have in common: models by name, their runs, and their perplexities, apart from the paper's."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fastweights.data.text.corpus import PUBLIC, open_corpus
from fastweights.experiments import split_preset
from fastweights.experiments.language_models.perplexities import PAPER, Perplexities, cells_of, perplexities
from fastweights.experiments.language_models.presets import (
    DATASETS,
    PRESETS,
    for_corpus,
    is_unchanged,
    model_of,
    with_usual_seed,
    words_of,
)
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Coverage, Records
from fastweights.reporting import BLACK, BLUE, GREEN, GREY, SKY, VERMILION, Drawing, Series, Table, draw, legend_of
from fastweights.training.run import Run

__all__ = [
    "BLACK", "BLUE", "CPU_SIZES", "GREEN", "GREY", "SKY", "VERMILION",
    "Drawing", "PaperTable", "Series", "Table", "coverage_over_seeds", "cpu_size", "draw", "legend_of", "on_text",
]  # fmt: skip

CPU_SIZES = {"cpu": "WikiText-2", "cpu-long": "Europarl"}
"""The sizes for CPUs and the text of each."""


def on_text(presets: Sequence[str], options: ReproduceOptions) -> list[Run]:
    """Presets for the text that tables of their size are about; another text is refused."""
    size = split_preset(presets[0], DATASETS)[0]
    expected, words = DATASETS[size], words_of(size)
    if options.data is None and expected not in PUBLIC:
        raise ValueError(f"data: {expected} cannot be downloaded; name the folder with its texts, --data FOLDER")
    corpus = open_corpus(options.data or expected)
    if len(corpus.vocabulary) != words:
        raise ValueError(
            f"{options.data}: this text has {len(corpus.vocabulary):,} words; tables at scale {options.scale} are "
            f"about {expected}, which has {words:,} (the tokenised one, not the raw)"
        )
    return [for_corpus(PRESETS[preset], corpus) for preset in presets]


def cpu_size(options: ReproduceOptions) -> str:
    """The size for CPUs whose text was named: cpu for WikiText-2, cpu-long for the debates."""
    words = None if options.data is None else len(open_corpus(options.data).vocabulary)
    return next((size for size in CPU_SIZES if words_of(size) == words), "cpu")


def coverage_over_seeds(presets: Collection[str], records: Records) -> Coverage:
    """How many of the presets have a record with their own seed, and what there is of other seeds."""
    of_presets = {run: record for run, record in records.items() if run.preset in presets}
    found = {run: record for run, record in of_presets.items() if is_unchanged(with_usual_seed(run))}
    return Coverage(list(found.values()), len(presets) + sum(not is_unchanged(run) for run in found))


@dataclass(frozen=True)
class PaperTable:
    """A comparison: what its models are called in the paper, the presets behind them, and the sizes it was made for."""

    name: str
    columns: tuple[str, ...]
    models: dict[tuple[str, ...], str]
    """The cells that tell a model from the others, and its preset without the size."""
    sizes: tuple[str, ...]
    truncated: Mapping[str, str] = field(default_factory=dict)
    """Of models whose memory is carried, the same one with truncated context: shown in columns beside it."""
    deciding: tuple[str, ...] = ()
    """The models that other seeds than the first are run for (`--seeds`); all if empty."""

    def presets(self, scale: str = "cpu", size: str = "cpu") -> list[str]:
        """The runs to train: every model at a size for CPUs, or at each of the paper's; then their truncated forms."""
        sizes = (size,) if scale == "cpu" else self.sizes
        models = dict.fromkeys([*self.models.values(), *self.truncated.values()])
        return [f"{size}-{model}" for size in sizes for model in models]

    def runs(self, options: ReproduceOptions) -> list[Run]:
        """The runs of the table on its text; another text is refused before any training."""
        if options.quick:
            raise ValueError("--quick is for figures; tables have one length of training")
        size = cpu_size(options) if options.scale == "cpu" else ""
        prepared = on_text(self.presets(options.scale, size), options)
        return [
            replace(run, training=replace(run.training, seed=seed))
            for seed in options.seeds or (prepared[0].training.seed,)
            for run in prepared
            if seed == run.training.seed or model_of(run) in (self.deciding or (model_of(run),))
        ]

    def data(self, options: ReproduceOptions) -> str:
        """Where the text of the table is."""
        return options.data or DATASETS[split_preset(self.presets(options.scale)[0], DATASETS)[0]]

    def coverage(self, records: Records) -> Coverage:
        """How many of the models for CPUs have a record, and what there is of other seeds."""
        return coverage_over_seeds(self.presets(), records)

    def contents(self, records: Records) -> tuple[Table, ...]:
        """Perplexities on each text in a table of its own, for they cannot be compared."""
        ours = perplexities(records)
        return self.on_wikitext2(ours), self.on_wikitext103(ours), self.on_europarl(ours)

    def on_wikitext2(self, ours: Perplexities) -> Table:
        """Our models for CPUs, once there is one."""
        return self._table(self.name, "WikiText-2", [("ours, cpu", ours, "cpu")], ours)

    def on_europarl(self, ours: Perplexities) -> Table:
        """Our models on the debates, once there is one."""
        return self._table(f"{self.name}-europarl", "Europarl", [("ours, cpu-long", ours, "cpu-long")], ours)

    def on_wikitext103(self, ours: Perplexities) -> Table:
        """The paper's numbers, and ours at its sizes if they were trained."""
        columns = [(f"paper, {size}", PAPER, size) for size in self.sizes]
        columns += [(f"ours, {size}", ours, size) for size in self.sizes if self._has(ours, size)]
        table = self._table(f"{self.name}-wikitext-103", "WikiText-103", columns, PAPER)
        # Models that the paper does not have are left out until they are trained at its sizes.
        known = [any(source.get(size, model) for _, source, size in columns) for model in self.models.values()]
        return replace(table, rows=tuple(row for row, is_known in zip(table.rows, known, strict=True) if is_known))

    def _has(self, perplexities: Perplexities, size: str) -> bool:
        return any(perplexities.get(size, model) for model in self.models.values())

    def _table(
        self, name: str, text: str, columns: Sequence[tuple[str, Perplexities, str]], needed: Perplexities
    ) -> Table:
        """A pair of columns for each source and size; no rows unless there is something to show."""
        heads = [
            f"{side}, {whose}{form}"
            for whose, _, _ in columns
            for form in ("", ", truncated")[: 2 if self.truncated else 1]
            for side in ("valid", "test")
        ]
        rows = []
        for labels, model in self.models.items():
            forms = [model, self.truncated.get(model, "")][: 2 if self.truncated else 1]
            found = (source.get(size, form) for _, source, size in columns for form in forms)
            rows.append((*labels, *cells_of(found)))
        shown = any(self._has(needed, size) for _, _, size in columns)
        caption = f"Perplexity per word on {text}, `<eos>` included."
        return Table(name, caption, (*self.columns, *heads), tuple(rows) if shown else ())
