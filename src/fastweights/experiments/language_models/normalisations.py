"""Normalisations that compete with the paper's: language models whose writes land, truncated and carried."""

from collections.abc import Sequence
from dataclasses import replace

from fastweights.experiments.language_models.perplexities import Perplexity, cells_of, pairs_of_seeds, perplexities
from fastweights.experiments.language_models.presets import DATASETS, PRESETS, model_of
from fastweights.experiments.language_models.tables import Table, coverage_over_seeds, on_text
from fastweights.experiments.model_scores import signed_over_seeds
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
BESIDE = {"sum and attention": "delta-attnnorm", "sum rule, attention": "sum"}
"""What the paper compares its choice with, for ELU+1."""
PAPERS_WAY = "delta"
CARRIED = ("", "-carried")
DECIDING = (
    *(f"linear-{way}-nopos{end}" for way in WAYS.values() for end in CARRIED),
    *(f"linear-{way}-nopos" for way in BESIDE.values()),
)
"""The models that other seeds than the first are run for: those whose differences the docs tell of."""


def ways_of(feature_map: str) -> dict[str, str]:
    """The ways to write that are run with a map."""
    return {**WAYS, **BESIDE} if feature_map == "linear" else WAYS


def names() -> list[str]:
    """The models without their size."""
    wanted = [
        f"{feature_map}-{way}-nopos{carried}"
        for feature_map in SHOWN_MAPS.values()
        for way in ways_of(feature_map).values()
        for carried in CARRIED
    ]
    return [name for name in wanted if f"cpu-{name}" in PRESETS]


def data(options: ReproduceOptions) -> str:
    """Where the text is."""
    return options.data or DATASETS["cpu"]


def runs(options: ReproduceOptions) -> list[Run]:
    """Every model with the seed of the other tables; of other seeds, those on which the advice hangs."""
    if options.quick:
        raise ValueError("--quick is for figures; tables have one length of training")
    if options.scale != "cpu":
        raise ValueError("scale: normalisations are compared at the size for CPUs; possible: cpu")
    prepared = on_text([f"cpu-{name}" for name in names()], options)
    usual = prepared[0].training.seed
    return [
        replace(run, training=replace(run.training, seed=seed))
        for seed in options.seeds or (usual,)
        for run in prepared
        if seed == usual or model_of(run) in DECIDING
    ]


def coverage(records: Records) -> Coverage:
    """How many of the models have a record with the seed of the other tables, and what there is of other seeds."""
    return coverage_over_seeds([f"cpu-{name}" for name in names()], records)


def contents(records: Records) -> tuple[Table, ...]:
    """Perplexities by map and way to write."""
    ours, rows = perplexities(records), []
    for feature_map, map_name in SHOWN_MAPS.items():
        for way, way_name in ways_of(map_name).items():
            forms = [ours.get("cpu", f"{map_name}-{way_name}-nopos{end}") for end in CARRIED]
            papers = [ours.get("cpu", f"{map_name}-{PAPERS_WAY}-nopos{end}") for end in CARRIED]
            against = (_change(form, paper) for form, paper in zip(forms, papers, strict=True))
            rows.append((feature_map, way, *cells_of(forms), *against, _change(forms[1], forms[0]), _seeds(forms)))
    columns = ("map", "normalisation", "valid, truncated", "test, truncated", "valid, carried", "test, carried")
    caption = (
        "Perplexity per word of WikiText-2, delta rule without positions. Differences are means over the seeds that "
        "both models have; seeds are those of the truncated and of the carried form."
    )
    more = ("truncated against sum, test", "carried against sum, test", "carried against truncated, test", "seeds")
    shown = tuple(rows) if any(ours.get("cpu", name) for name in names()) else ()
    return (Table("normalisations", caption, (*columns, *more), shown),)


def _change(model: Perplexity | None, other: Perplexity | None) -> str:
    """How much higher a test perplexity is than another one, with the seeds that both were trained with."""
    pairs = [] if model is None or other is None or model is other else pairs_of_seeds(model, other)
    changes = [100 * (one.test / two.test - 1) for one, two in pairs]
    return f"{signed_over_seeds(changes)} %" if changes else "–"


def _seeds(forms: Sequence[Perplexity | None]) -> str:
    """The number of seeds of the truncated and of the carried form."""
    return " / ".join(str(len(form.by_seed) if form else 0) for form in forms)
