"""Documents: translation with a memory that goes on from sentence to sentence."""

from collections.abc import Mapping, Sequence
from statistics import fmean

from fastweights.evaluation.bootstrap import compare_statistics
from fastweights.evaluation.documents import PlaceLosses
from fastweights.experiments.documents.presets import ALONE, SEEDS, grid
from fastweights.experiments.model_scores import over_seeds
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Coverage, Records
from fastweights.experiments.translation.table1 import Table
from fastweights.files import Json
from fastweights.training.run import Run

TITLE = "Documents: translation with a memory that goes on"
TEXT = (
    "Pairs of Europarl in the order of the debates, 32 sentences a document. The decoder's self-attention is a memory "
    "of fixed size. It goes on through the document, so that it holds what was translated before, or it is emptied at "
    "every sentence; both see the same batches in the same order. A model that was trained with its memory carried on "
    "is also read sentence by sentence."
)
ARGUMENTS = " --data europarl-documents --jobs 2"
LABELS = {"gated-centred": "gated delta rule, centred L2", "delta": "delta rule"}
SPLITS = {"val": "valid", "test": "test"}
WAYS = {True: "carried on", False: "sentence by sentence"}
PLACES = ((0, 1), (1, 4), (4, 16), (16, 32))
"""From where to before where in a document."""


def runs(options: ReproduceOptions = ReproduceOptions()) -> list[Run]:  # noqa: B008  a frozen value
    """Every memory, carried on and emptied, with the first seed or with those that are asked for."""
    if options.quick:
        raise ValueError("--quick is for figures; documents have one length of training")
    return [run for _, run in grid(options.seeds or SEEDS[:1])]


def coverage(records: Records) -> Coverage:
    """How many of the runs with the first seed have a record, and what there is of other seeds."""
    found = [run for _, run in grid() if run in records]
    others = sum(run.training.seed != SEEDS[0] for run in found)
    return Coverage([records[run] for run in found], len(runs()) + others)


def contents(records: Records) -> tuple[Table, ...]:
    """Losses and BLEU, and losses by place in the document."""
    found = readings(records)
    return scores_table(found), places_table(found)


Readings = Mapping[tuple[str, str], Sequence[Json]]
"""What was measured with every seed, by model and by how it was read; each with the splits."""


def readings(records: Records) -> Readings:
    """The measured runs."""
    found: dict[tuple[str, str], list[Json]] = {}
    for model, run in grid():
        if run in records and run.task.is_measured(records[run].result):
            splits = records[run].result["readings"]
            for reading in next(iter(splits.values())):
                found.setdefault((model, reading), []).append(
                    {split: splits[split][reading] for split in SPLITS if split in splits}
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
            rows.append((label, WAYS[model == decoder], WAYS[reading == "carried"], *cells, *verdicts))
    columns = (
        "decoder", "trained", "read", *(f"{name} loss" for name in SPLITS.values()),
        *(f"{name} BLEU" for name in SPLITS.values()),
        *(f"against a memory never carried, {name}" for name in SPLITS.values()),
    )  # fmt: skip
    caption = (
        "Loss per token without smoothing, and BLEU of greedy translations, each written into the memory before the "
        "next. Last columns: change of the loss, and of BLEU with the paired bootstrap."
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
    """By how much carrying the memory changes the loss of the first sentence of a document, and of later ones."""
    rows = []
    for decoder, label in LABELS.items():
        carried, alone = (found.get(key) for key in ((decoder, "carried"), (f"{decoder}{ALONE}", "alone")))
        for split, name in SPLITS.items():
            if carried and alone:
                changes = [_change(carried, alone, split, *place) for place in PLACES]
                rows.append((label, name, *changes))
    columns = (
        "decoder", "text",
        *("first sentence" if end == 1 else f"sentences {first + 1} to {end}" for first, end in PLACES),
    )  # fmt: skip
    caption = "Loss per token by place in the document, with the memory carried on against a memory never carried."
    return Table("documents-places", caption, columns, tuple(rows))


def _change(carried: Sequence[Json], alone: Sequence[Json], split: str, first: int, end: int) -> str:
    with_memory, without = (
        fmean(PlaceLosses(tuple(one[split]["sums"]), tuple(one[split]["tokens"])).mean(first, end) for one in each)
        for each in (carried, alone)
    )
    return f"{with_memory:.3f} against {without:.3f} ({100 * (with_memory / without - 1):+.1f} %)"
