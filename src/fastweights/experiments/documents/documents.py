"""Documents: translation with a memory that goes on from sentence to sentence."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

from fastweights.data.translation_files import VALID
from fastweights.evaluation.bootstrap import compare_statistics
from fastweights.evaluation.documents import PlaceLosses
from fastweights.experiments.documents.config import DocumentsConfig
from fastweights.experiments.documents.presets import ALONE, DECIDING, SEEDS, for_data, grid
from fastweights.experiments.model_scores import over_seeds
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Coverage, Records
from fastweights.experiments.translation.table1 import Table
from fastweights.files import Json
from fastweights.runs.record import Record
from fastweights.training.run import Run

TITLE = "Documents: translation with a memory that goes on"
TEXT = (
    "Pairs of Europarl in the order of the debates, 32 sentences a document. The decoder's self-attention is a memory "
    "of fixed size. It goes on through the document, so that it holds what was translated before, or it is emptied at "
    "every sentence; both see the same batches in the same order. A model that was trained with its memory carried on "
    "is also read sentence by sentence. For losses the memory holds the references of the sentences before, for BLEU "
    "the model's own translations."
)
ARGUMENTS = " --data europarl-documents --jobs 2"
LABELS = {"gated-centred": "gated delta rule, centred L2", "delta": "delta rule"}
SPLITS = ("valid", "test")
READ_AS = {True: "carried on", False: "sentence by sentence"}
PLACES = ((0, 1), (1, 4), (4, 16), (16, 32))
"""From where to before where in a document."""


def runs(options: ReproduceOptions = ReproduceOptions()) -> list[Run]:  # noqa: B008  a frozen value
    """The memory that is best carried, carried on and emptied, with the first seed or with those that are asked for."""
    if options.quick or options.scale != "cpu":
        raise ValueError("--quick is for figures, and --scale paper for Tables 1 to 5; documents have one size")
    return [for_data(run, options.data) for _, run in grid(options.seeds or SEEDS[:1], DECIDING)]


def gathered(records: Records) -> dict[Run, Record]:
    """The measured runs as they are for no pairs, of the corpus with most of them."""
    known, found = {run for _, run in grid()}, dict[str, dict[Run, Record]]()
    for run, record in records.items():
        if not isinstance(run.task, DocumentsConfig) or not run.task.is_measured(record.result):
            continue
        if (plain := replace(run, task=replace(run.task, pairs=""))) in known:
            found.setdefault(run.task.pairs, {})[plain] = record
    return max(found.values(), key=len, default={})


def coverage(records: Records) -> Coverage:
    """How many of the runs that are asked for have a record, and what there is of other seeds and memories."""
    found, wanted = gathered(records), {run for _, run in grid(SEEDS[:1], DECIDING)}
    return Coverage(list(found.values()), len(wanted | found.keys()))


def contents(records: Records) -> tuple[Table, ...]:
    """Losses and BLEU, and losses by place in the document."""
    found = readings(records)
    return scores_table(found), places_table(found)


Readings = Mapping[tuple[str, str], Sequence[Json]]
"""What was measured with every seed, by model and by how it was read; each with the splits."""


def readings(records: Records) -> Readings:
    """The measured runs, with the first of the test sets."""
    measured, found = gathered(records), dict[tuple[str, str], list[Json]]()
    for model, run in grid():
        if run in measured:
            splits = measured[run].result["readings"]
            test = next(split for split in splits if split != VALID)
            for reading in splits[VALID]:
                found.setdefault((model, reading), []).append(
                    {"valid": splits[VALID][reading], "test": splits[test][reading]}
                )
    return found


def scores_table(found: Readings) -> Table:
    """Every model with every reading, and whether it is ahead of the one that never carries its memory."""
    rows = []
    for decoder, label in LABELS.items():
        base = found.get((f"{decoder}{ALONE}", "alone"))
        for model, reading in ((decoder, "carried"), (decoder, "alone"), (f"{decoder}{ALONE}", "alone")):
            if (measured := found.get((model, reading))) is None:
                continue
            cells = [over_seeds([float(one[split]["loss"]) for one in measured], "{:.3f}".format) for split in SPLITS]
            cells += [over_seeds([float(one[split]["bleu"]) for one in measured]) for split in SPLITS]
            verdicts = [_against(measured, base, split) if base and measured is not base else "–" for split in SPLITS]
            rows.append((label, READ_AS[model == decoder], READ_AS[reading == "carried"], *cells, *verdicts))
    columns = (
        "decoder", "trained", "read", *(f"{split} loss" for split in SPLITS), *(f"{split} BLEU" for split in SPLITS),
        *(f"against a memory never carried, {split}" for split in SPLITS),
    )  # fmt: skip
    caption = (
        "Loss per token without smoothing, and BLEU of greedy translations. Last columns: change of the loss, and of "
        "BLEU with the paired bootstrap, against the model whose memory is never carried."
    )
    return Table("documents", caption, columns, tuple(rows))


def _against(measured: Sequence[Json], base: Sequence[Json], split: str) -> str:
    """By how much loss and BLEU differ, and how likely chance makes such a difference of BLEU."""
    losses = [fmean(float(one[split]["loss"]) for one in each) for each in (measured, base)]
    first, second = ([one[split]["statistics"] for one in each] for each in (base, measured))
    comparison = compare_statistics(first, second)
    verdict = "undecided" if not comparison.decided() else "better" if comparison.difference > 0 else "worse"
    change = 100 * (losses[0] / losses[1] - 1)
    return f"{change:+.1f} %; {comparison.difference:+.1f} BLEU, p = {comparison.p_value:.3f}: {verdict}"


def places_table(found: Readings) -> Table:
    """The loss of the first sentence of a document, and of later ones, by both models of a decoder."""
    rows = []
    for decoder, label in LABELS.items():
        carried, alone = (found.get(key) for key in ((decoder, "carried"), (f"{decoder}{ALONE}", "alone")))
        if carried and alone:
            for split in SPLITS:
                rows.append((label, split, *(_change(carried, alone, split, *place) for place in PLACES)))
    columns = (
        "decoder", "text",
        *("first sentence" if end == 1 else f"sentences {first + 1} to {end}" for first, end in PLACES),
    )  # fmt: skip
    caption = (
        "Loss per token by place in the document: of the model that is trained and read with its memory carried on, "
        "against that of the model whose memory never is."
    )
    return Table("documents-places", caption, columns, tuple(rows))


def _change(carried: Sequence[Json], alone: Sequence[Json], split: str, first: int, end: int) -> str:
    if not sum(alone[0][split]["tokens"][first:end]):
        return "–"
    with_memory, without = (
        fmean(PlaceLosses(tuple(one[split]["sums"]), tuple(one[split]["tokens"])).mean(first, end) for one in each)
        for each in (carried, alone)
    )
    return f"{with_memory:.3f} against {without:.3f} ({100 * (with_memory / without - 1):+.1f} %)"
