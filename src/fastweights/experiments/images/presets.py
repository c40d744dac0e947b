"""The runs with pictures by name: one for every model of `contenders.py`."""

from fastweights.experiments.contenders import contender
from fastweights.experiments.images.config import ImagesConfig
from fastweights.experiments.records import Records
from fastweights.models.sequence_classifier import SequenceClassifierConfig
from fastweights.training.config import TrainingConfig
from fastweights.training.run import Run


def preset(name: str, model: str | None = None, rule: str | None = None, seed: int = 1) -> Run:
    """Labels that change with one of the contenders, whose name says the rule."""
    if rule is not None:
        raise ValueError(f"rule: the models of {name} name their rule, as in --model delta-l2; got {rule!r}")
    model = model or "delta-centred"
    config = ImagesConfig(model=SequenceClassifierConfig(contender(model), convolution=None))
    training = TrainingConfig(
        steps=900,
        batch_size=16,
        learning_rate=2e-3,
        warmup_steps=50,
        clip_norm=1.0,
        log_every=None,
        evaluate_every=300,
        seed=seed,
    )
    return Run(config, training, preset=f"images-{model}")


def summary(records: Records) -> str:
    """How many records there are, in words."""
    count = sum(isinstance(run.task, ImagesConfig) for run in records)
    return f"{count} records with pictures"
