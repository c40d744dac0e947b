"""The runs with pictures by name: one for every model of `contenders.py`."""

import statistics
from collections.abc import Sequence

from fastweights.experiments.contenders import contender, training
from fastweights.experiments.images.config import ImagesConfig
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Records
from fastweights.experiments.scores import AccuracyScores, Key, found
from fastweights.files import Json
from fastweights.models.sequence_classifier import SequenceClassifierConfig
from fastweights.training.run import Run

SEEDS = (1, 2, 3)
MODELS = ("softmax", "sum", "delta-attention", "delta", "nlms", "delta-l2", "delta-centred")


def preset(name: str, model: str | None = None, rule: str | None = None, seed: int = 1) -> Run:
    """Labels that change with one of the contenders, whose name says the rule."""
    model = model or "delta-centred"
    config = ImagesConfig(model=SequenceClassifierConfig(contender(model, name, rule), convolution=None))
    return Run(config, training(900, 16, 2e-3, 300, seed), preset=f"images-{model}")


def runs_by_model(options: ReproduceOptions = ReproduceOptions()) -> list[tuple[Key, Run]]:  # noqa: B008  frozen
    """Every run by its model."""
    return [
        ((model,), preset("images", model, seed=seed))
        for seed in options.seeds or (SEEDS[:1] if options.quick else SEEDS)
        for model in MODELS
        if seed == SEEDS[0] or model != "softmax"
    ]


def scores(records: Records) -> AccuracyScores:
    """The accuracies of the models."""
    return found(records, runs_by_model())


def memories(records: Records) -> dict[str, list[Json]]:
    """What was measured of the untrained memories, one for each seed, by model."""
    measured: dict[str, list[Json]] = {}
    for (model,), run in runs_by_model():
        if run in records and (memory := records[run].result["image_memory"]) is not None:
            measured.setdefault(model, []).append(memory)
    return measured


def errors_of(measured: Sequence[Json], feature_map: str, keys: int, length: int) -> float:
    """The mean error over seeds."""
    return statistics.fmean(memory["errors"][feature_map][str(keys)][str(length)] for memory in measured)
