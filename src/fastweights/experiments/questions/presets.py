"""The runs of question answering by name: a task of bAbI and a model of `contenders.py`."""

from fastweights.experiments.contenders import contender
from fastweights.experiments.questions.config import QuestionsConfig
from fastweights.experiments.records import Records
from fastweights.models.sequence_classifier import SequenceClassifierConfig
from fastweights.training.config import TrainingConfig
from fastweights.training.run import Run
from fastweights.training.stopping import Stopping

SEVERAL_FACTS = (2, 3)
"""Tasks whose answers join several sentences that stand apart: a layer more."""


def preset(
    name: str,
    model: str | None = None,
    rule: str | None = None,
    number: int = 1,
    examples: int = 10_000,
    seed: int = 1,
) -> Run:
    """A task of bAbI with one of the contenders, whose name says the rule."""
    if rule is not None:
        raise ValueError(f"rule: the models of {name} name their rule, as in --model delta-l2; got {rule!r}")
    model = model or "delta-l2"
    layers = 3 if number in SEVERAL_FACTS else 2
    config = QuestionsConfig(number, examples, SequenceClassifierConfig(contender(model), num_layers=layers))
    few = examples <= 1_000
    training = TrainingConfig(
        steps=200 if few else 800,
        batch_size=32,
        learning_rate=2e-3,
        warmup_steps=50,
        clip_norm=1.0,
        log_every=None,
        evaluate_every=50 if few else 100,
        seed=seed,
    )
    return Run(config, training, Stopping(target=0.002), preset=f"qa{number}-{examples}-{model}")


def summary(records: Records) -> str:
    """How many records there are, in words."""
    count = sum(isinstance(run.task, QuestionsConfig) for run in records)
    return f"{count} records of question answering"
