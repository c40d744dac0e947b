"""Which models are run on which problems of recall, with which seeds; tables, figures and claims read the same grid."""

from collections.abc import Mapping

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.recall.presets import preset
from fastweights.experiments.records import Records
from fastweights.experiments.scores import AccuracyScores, Key, found
from fastweights.training.run import Run

SEEDS = (1, 2, 3)
LONGEST = 6
"""Lengths of the longest words in tests, as a multiple of the training's."""

DECIDING_STATES = ("signed-delta", "signed-delta-2", "product2")
STATES = dict.fromkeys(
    ("parity", "counting", "words-s3", "words-s5-swaps", "words-s5-cycles"), ("softmax", "sum", *DECIDING_STATES)
)

ALL = ("softmax", "sum", "delta-attention", "delta", "nlms", "delta-l2", "delta-centred", "gated-delta", "kimi-delta")
BINDINGS = {
    "rebinding": ALL,
    "rebinding-64": ("softmax", "sum", "delta-attention", "delta", "delta-l2", "gated-delta", "kimi-delta"),
    "recall-64": ("softmax", "sum", "delta-l2"),
}
DECIDING_BINDINGS = {
    "rebinding": ("softmax", "sum", "delta-attention", "delta", "nlms", "delta-l2", "delta-centred"),
    "rebinding-64": ("sum", "delta", "delta-l2", "gated-delta", "kimi-delta"),
}
"""Models that decide a claim, or that a trial was about, have every seed, the others the first."""


def states(options: ReproduceOptions = ReproduceOptions()) -> list[tuple[Key, Run]]:  # noqa: B008  a frozen value
    """Every run of state tracking by problem and model."""
    return _grid(STATES, dict.fromkeys(STATES, DECIDING_STATES), options)


def bindings(options: ReproduceOptions = ReproduceOptions()) -> list[tuple[Key, Run]]:  # noqa: B008
    """Every run of bindings by problem and model."""
    return _grid(BINDINGS, DECIDING_BINDINGS, options)


def state_scores(records: Records) -> AccuracyScores:
    """What the runs of state tracking reached."""
    return found(records, states())


def binding_scores(records: Records) -> AccuracyScores:
    """What the runs of bindings reached."""
    return found(records, bindings())


def _grid(
    models: Mapping[str, tuple[str, ...]], deciding: Mapping[str, tuple[str, ...]], options: ReproduceOptions
) -> list[tuple[Key, Run]]:
    seeds = options.seeds or (SEEDS[:1] if options.quick else SEEDS)
    return [
        ((problem, model), preset(problem, model, seed=seed))
        for seed in seeds
        for problem, names in models.items()
        for model in names
        if seed == SEEDS[0] or model in deciding.get(problem, ())
    ]
