"""Normalisations that compete with the paper's: language models whose writes land, truncated and carried."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import replace

from fastweights.experiments.language_models.perplexities import Perplexity, measured, shown
from fastweights.experiments.language_models.presets import (
    DATASETS,
    has_other_seed,
    is_unchanged,
    model_of,
    size_of,
    with_usual_seed,
)
from fastweights.experiments.language_models.tables import Table, on_text
from fastweights.experiments.model_scores import over_seeds
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Coverage, Records
from fastweights.training.run import Run

TITLE = "Normalisations: language models whose writes land"
TEXT = (
    "Sum normalisation balances what a write adds and removes, but the write moves the memory by |k|² of what Eq. 22 "
    "asks for, a tenth of it in a language model. L2 normalisation, centred L2 normalisation and the step of "
    "normalised least mean squares (NLMS) make it land in full; centring also takes out the direction that all "
    "positive keys share. All models are the size for CPUs without positions, trained on WikiText-2 with equal "
    "updates; ± is the standard deviation over seeds."
)
ARGUMENTS = " --jobs 2"
SHOWN_MAPS = {"ELU+1": "linear", "DPFP-1": "dpfp"}
WAYS = {"sum (the paper)": "delta", "L2": "delta-l2", "centred L2": "delta-centred", "sum, NLMS step": "delta-step"}
"""What a way to write is called, and the part of a preset's name that stands for it."""
CARRIED = ("", "-carried")

BySeed = Mapping[str, Sequence[Perplexity]]
"""The perplexities of each model, one for every seed that was run."""


def names() -> list[str]:
    """The models without their size."""
    return [
        f"{feature_map}-{way}-nopos{carried}"
        for feature_map in SHOWN_MAPS.values()
        for way in WAYS.values()
        for carried in CARRIED
    ]


def data(options: ReproduceOptions) -> str:
    """Where the text is."""
    return options.data or DATASETS["cpu"]


def runs(options: ReproduceOptions) -> list[Run]:
    """Every model with the seed of the other tables, or with those that are asked for, one seed after the other."""
    if options.quick:
        raise ValueError("--quick is for figures; tables have one length of training")
    if options.scale != "cpu":
        raise ValueError("scale: normalisations are compared at the size for CPUs; possible: cpu")
    prepared = on_text([f"cpu-{name}" for name in names()], options)
    seeds = options.seeds or (prepared[0].training.seed,)
    return [replace(run, training=replace(run.training, seed=seed)) for seed in seeds for run in prepared]


def coverage(records: Records) -> Coverage:
    """How many of the models have a record with the seed of the other tables, and what there is of other seeds."""
    shown_runs = {run: record for run, record in records.items() if _is_shown(run)}
    others = sum(map(has_other_seed, shown_runs))
    return Coverage(list(shown_runs.values()), len(names()) + others)


def by_seed(records: Records) -> BySeed:
    """What the models reached with every seed."""
    found: dict[str, list[tuple[int, Perplexity]]] = {}
    for run, record in records.items():
        if _is_shown(run) and run.task.is_measured(record.result):
            found.setdefault(model_of(run), []).append((run.training.seed, measured(record)))
    return {
        name: [perplexity for _, perplexity in sorted(seeds, key=lambda one: one[0])] for name, seeds in found.items()
    }


def contents(records: Records) -> tuple[Table, ...]:
    """Perplexities by map and way to write."""
    found = by_seed(records)
    rows = []
    for feature_map, map_name in SHOWN_MAPS.items():
        for way, way_name in WAYS.items():
            truncated, carried = (found.get(f"{map_name}-{way_name}-nopos{end}", ()) for end in CARRIED)
            cells = [
                *_cells(truncated),
                *_cells(carried),
                _gain(truncated, carried),
                str(min(len(truncated), len(carried))),
            ]
            rows.append((feature_map, way, *cells))
    columns = ("map", "normalisation", "valid, truncated", "test, truncated", "valid, carried", "test, carried")
    caption = "Perplexity per word of WikiText-2, delta rule without positions."
    more = ("carried against truncated, test", "seeds")
    return (Table("normalisations", caption, (*columns, *more), tuple(rows) if found else ()),)


def _is_shown(run: Run) -> bool:
    """True for the models of the table, whatever their seed."""
    return size_of(run) == "cpu" and model_of(run) in names() and is_unchanged(with_usual_seed(run))


def _cells(found: Sequence[Perplexity]) -> tuple[str, str]:
    return over_seeds([one.valid for one in found], shown), over_seeds([one.test for one in found], shown)


def _gain(truncated: Sequence[Perplexity], carried: Sequence[Perplexity]) -> str:
    if not truncated or not carried:
        return "–"
    ratio = statistics.fmean(one.test for one in carried) / statistics.fmean(one.test for one in truncated)
    return f"{100 * (ratio - 1):+.1f} %"
