"""Longer inputs, several pairs joined into one: where does a memory of fixed size help, and what does it lose?"""

from collections.abc import Mapping
from dataclasses import replace

from fastweights.data.translation_files import VALID
from fastweights.experiments.options import DataOptions, ReproduceOptions
from fastweights.experiments.records import Coverage, Records
from fastweights.experiments.translation.config import TranslationConfig
from fastweights.experiments.translation.presets import PRESETS, on_data, with_pairs_of
from fastweights.experiments.translation.table1 import Table
from fastweights.runs.record import Record
from fastweights.training.run import Run

TITLE = "Lengths: several sentences translated as one"
TEXT = (
    "Neighbouring sentences of Multi30k have nothing to do with each other; what can be asked is what length costs. "
    "Neighbours are joined, source with source and target with target, and every model is trained with as many updates "
    "of as many tokens. Softmax attention keeps every token; the others have to hold all sentences in a memory that "
    "does not grow."
)
ARGUMENTS = " --data multi30k --jobs 2"
MODELS = {
    "standard": "Standard",
    "linear": "Linear",
    "dpfp2-delta": "DPFP-2, delta rule in the decoder",
}
JOINED = (1, 16)
STEPS = 1000
LONGEST = 1024
"""Tokens of a side: no joined pair of Multi30k has as many."""


def data(options: ReproduceOptions) -> str:
    """The folder of the pairs."""
    if options.data is None:
        raise ValueError("data: longer inputs need a folder with the pairs, such as Multi30k's")
    return options.data


def runs(options: ReproduceOptions) -> list[Run]:
    """Every model with every length, the shortest first."""
    if options.quick or options.seeds or options.scale != "cpu":
        raise ValueError("longer inputs have one size, one seed and one length of training")
    prepared = [on_data(PRESETS[f"translation-cpu-{name}"], DataOptions(data=data(options)))[0] for name in MODELS]
    return [joined(run, count) for count in JOINED for run in prepared]


def joined(run: Run, count: int) -> Run:
    """A short training on so many sentences at a time."""
    assert isinstance(run.task, TranslationConfig)
    training = replace(run.training, steps=STEPS, evaluate_every=STEPS)
    return replace(run, task=replace(run.task, joined=count, longest=LONGEST), training=training)


def gathered(records: Records) -> dict[str, dict[tuple[str, int], Record]]:
    """The measured runs of every corpus by model and sentences at a time."""
    found: dict[str, dict[tuple[str, int], Record]] = {}
    for run, record in records.items():
        name, task = run.preset.removeprefix("translation-cpu-"), run.task
        if name not in MODELS or not isinstance(task, TranslationConfig) or not task.is_measured(record.result):
            continue
        if task.joined in JOINED and run == joined(with_pairs_of(run, run.preset), task.joined):
            found.setdefault(f"{task.corpus} {task.languages}", {})[name, task.joined] = record
    return found


def coverage(records: Records) -> Coverage:
    """How many of the runs have a record, on the corpus with most."""
    most = max(gathered(records).values(), key=len, default={})
    return Coverage(list(most.values()), len(MODELS) * len(JOINED))


def contents(records: Records) -> tuple[Table, ...]:
    """Scores and costs by sentences at a time, each corpus in rows of its own."""
    rows = []
    for corpus, found in gathered(records).items():
        for name, label in MODELS.items():
            for count in JOINED:
                if (record := found.get((name, count))) is not None:
                    rows.append((corpus, label, str(count), *cells(record, found.get(("standard", count)))))
    columns = (
        "corpus", "model", "sentences at a time", "valid loss", "test BLEU", "brevity penalty", "behind Standard",
        "ms of a core per update", "ms of a core per translated word",
    )  # fmt: skip
    caption = f"After {STEPS:,} updates, beam 4; validation loss per token."
    return (Table("longer-inputs", caption, columns, tuple(rows)),)


def cells(record: Record, standard: Record | None) -> tuple[str, ...]:
    """What a model reached, how far it is behind softmax attention, and what it cost."""
    result, test = record.result, score_of(record)
    behind = "–" if standard is None else f"{score_of(standard)['bleu'] - test['bleu']:.1f}"
    losses = [loss for loss in record.curve.get("valid_loss", ()) if loss is not None]
    translating = result.get("translating", {})
    words = translating.get("words")
    return (
        f"{losses[-1]:.3f}" if losses else "–",
        f"{test['bleu']:.1f}",
        f"{test['brevity_penalty']:.3f}",
        behind,
        f"{1000 * result['core_seconds'] / result['steps']:.0f}" if result.get("core_seconds") else "–",
        f"{1000 * translating['core_seconds'] / words:.2f}" if words else "–",
    )


def score_of(record: Record) -> Mapping[str, float]:
    """The score of the first test set."""
    found: Mapping[str, float] = next(score for split, score in record.result["scores"].items() if split != VALID)
    return found
