"""How a model is trained, as values: what decides the numbers, and what does not."""

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Literal

import torch

from fastweights.config import require_at_least, unknown
from fastweights.training.schedule import SCHEDULES, Schedule


@dataclass(frozen=True)
class TrainingConfig:
    """Everything about the training that decides its losses; the task is the rest.

    `batch_size` counts the rows of all processes together. Each step's rows are split over the processes and then into
    `accumulation` parts, one after the other; their gradients are averaged before the update. Without `clip_norm`
    gradients are not clipped; without `log_every` only evaluations leave lines of metrics. With no `steps` at all a
    model is measured as it was made.
    """

    steps: int
    batch_size: int
    learning_rate: float = 2.5e-4
    schedule: str = "cosine"
    warmup_steps: int = 2000
    clip_norm: float | None = 0.25
    beta2: float = 0.999
    """How much of Adam's second moment a step keeps."""
    accumulation: int = 1
    sharding: Literal["none", "full"] = field(default="none", compare=False)
    """What several processes do with parameters, gradients and moments: each has all of them, or each its share. That
    changes the memory that they need and nothing about the run, which may go on either way."""
    precision: Literal["float32", "bfloat16"] = "float32"
    log_every: int | None = 10
    evaluate_every: int = 1000
    seed: int = 1111

    def __post_init__(self) -> None:
        require_at_least(1, self, "batch_size", "accumulation", "log_every", "evaluate_every")
        require_at_least(0, self, "steps", "warmup_steps", "seed")
        for name in ("learning_rate", "clip_norm"):
            value = getattr(self, name)
            if value is not None and not 0 < value < math.inf:
                raise ValueError(f"{name}: expected a positive finite number, got {value}")
        if not 0 <= self.beta2 < 1:
            raise ValueError(f"beta2: expected a number from 0 to below 1, got {self.beta2}")
        if self.schedule not in SCHEDULES:
            raise ValueError(f"schedule: {unknown('name', self.schedule, SCHEDULES)}")
        if self.batch_size % self.accumulation:
            raise ValueError(
                f"accumulation: expected a divisor of batch_size {self.batch_size}, got {self.accumulation}"
            )

    @property
    def rates(self) -> Schedule:
        """The learning rate of every update."""
        return SCHEDULES[self.schedule](self.learning_rate, self.warmup_steps, self.steps)

    def autocast(self, device: torch.device) -> AbstractContextManager[object]:
        """The context in which the model computes."""
        return torch.autocast(device.type, torch.bfloat16) if self.precision == "bfloat16" else nullcontext()


@dataclass(frozen=True)
class CheckpointPolicy:
    """Settings that may change when a run is resumed: when to save, and how to treat a NaN.

    Checkpoints are written every few steps or seconds, whichever comes first, at the end and when asked to stop;
    with `keep_best` also at every new best validation loss. A step with a loss, gradient or memory that is not finite
    stops the run or is skipped, and never reaches the weights; "continue" applies it all the same, for experiments
    about models that break.
    """

    save_every_steps: int = 1000
    save_every_seconds: float = 300.0
    keep_checkpoints: int = 2
    keep_best: bool = True
    when_not_finite: Literal["stop", "skip", "continue"] = "stop"

    def __post_init__(self) -> None:
        for name in ("save_every_steps", "save_every_seconds", "keep_checkpoints"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: expected a positive number, got {getattr(self, name)}")
