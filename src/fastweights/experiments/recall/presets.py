"""The runs of recall and state tracking by name: a problem, and a model of `contenders.py`."""

from collections.abc import Callable
from typing import Any

from fastweights.config import unknown
from fastweights.data.bindings import Bindings
from fastweights.data.words import GroupWords, Letters
from fastweights.experiments.contenders import contender, training
from fastweights.experiments.recall.config import RecallConfig
from fastweights.models.attention import AttentionConfig
from fastweights.models.sequence_classifier import SequenceClassifierConfig
from fastweights.training.run import Run
from fastweights.training.stopping import Stopping


def _states(
    group: str, letters: Letters = "all", label_smoothing: float = 0.0
) -> Callable[[AttentionConfig], RecallConfig]:
    """One layer without a convolution: what it can track, its memory tracks."""
    return lambda attention: RecallConfig(
        GroupWords(group, letters),
        SequenceClassifierConfig(attention, num_layers=1, convolution=None),
        times=(1, 6),
        label_smoothing=label_smoothing,
    )


def _bindings(problem: Bindings, **model: Any) -> Callable[[AttentionConfig], RecallConfig]:
    return lambda attention: RecallConfig(problem, SequenceClassifierConfig(attention, **model))


PROBLEMS: dict[str, Callable[[AttentionConfig], RecallConfig]] = {
    # With two states the loss vanishes long before a write reflects exactly, and what is missing adds up.
    "parity": _states("z2", label_smoothing=0.1),
    "counting": _states("z3"),
    "words-s3": _states("s3"),
    "words-s5-swaps": _states("s5", "swaps"),
    "words-s5-cycles": _states("s5", "cycles"),
    "rebinding": _bindings(Bindings()),
    "rebinding-64": _bindings(Bindings(64, 8, 128), num_heads=2, starts_alone=False),
    "recall-64": _bindings(Bindings(64, 8, 128, rebinding=False), num_heads=2, starts_alone=False),
}
"""The task of a problem for an attention. Heads of 32 have 64 features with DPFP-1: room for 64 variables.

Every value has to be joined with the variable before it; with 64 variables a convolution that starts with each step
alone does not find that out within 500 steps.
"""

TRAINING = {"rebinding": (600, 32), "rebinding-64": (1000, 16), "recall-64": (1000, 16)}
"""Steps and sequences per step. With too few steps the learning rate is gone before all have arrived."""
TRACKING = (500, 32)
"""The same for words, of which every step asks."""


def preset(name: str, model: str | None = None, rule: str | None = None, seed: int = 1) -> Run:
    """A run of a problem with one of the contenders, whose name says the rule."""
    if name not in PROBLEMS:
        raise ValueError(f"problem: {unknown('name', name, PROBLEMS)}")
    model = model or ("delta-l2" if name in TRAINING else "product2")
    steps, batch_size = TRAINING.get(name, TRACKING)
    # Answers may stop at 99.8 %; a state that is right for 40 steps need not be for 240.
    stopping = Stopping(target=0.002) if name in TRAINING else Stopping()
    task = PROBLEMS[name](contender(model, name, rule))
    return Run(task, training(steps, batch_size, 3e-3, 100, seed), stopping, preset=f"{name}-{model}")
