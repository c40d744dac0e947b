"""How a model is trained, as values: what decides the numbers, and what does not."""

from dataclasses import dataclass
from typing import Literal

import torch

from fastweights.training.schedule import WarmupCosine


@dataclass(frozen=True)
class TrainingConfig:
    """Everything about the training that decides its losses; the data and the model are the rest.

    `batch_size` counts the columns of all processes together. Each step's columns are split over the processes and
    then into `accumulation` parts, one after the other; their gradients are averaged before the update.
    `carry_state` keeps every column's memory from segment to segment until the epoch ends; otherwise each segment
    starts with an empty one.
    """

    steps: int
    batch_size: int
    segment_length: int
    learning_rate: float = 2.5e-4
    warmup_steps: int = 2000
    clip_norm: float = 0.25
    accumulation: int = 1
    carry_state: bool = False
    shuffle: bool = False
    precision: Literal["float32", "bfloat16"] = "float32"
    log_every: int = 10
    evaluate_every: int = 1000
    seed: int = 1111

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "segment_length", "accumulation", "log_every", "evaluate_every"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: expected at least 1, got {getattr(self, name)}")
        if self.warmup_steps < 0:
            raise ValueError(f"warmup_steps: expected at least 0, got {self.warmup_steps}")
        for name in ("learning_rate", "clip_norm"):
            if not 0 < getattr(self, name) < float("inf"):
                raise ValueError(f"{name}: expected a positive number, got {getattr(self, name)}")
        if self.carry_state and self.shuffle:
            raise ValueError(
                "shuffle: with carry_state each segment has to continue the one before; choose one of them"
            )
        if self.batch_size % self.accumulation:
            raise ValueError(
                f"accumulation: expected a divisor of batch_size {self.batch_size}, got {self.accumulation}"
            )

    @property
    def schedule(self) -> WarmupCosine:
        """The learning rate of every update."""
        return WarmupCosine(self.learning_rate, self.warmup_steps, self.steps)

    def autocast(self, device: torch.device) -> torch.autocast:
        """The context in which the model computes."""
        return torch.autocast(device.type, torch.bfloat16, enabled=self.precision == "bfloat16")

    def columns(self, part: int, parts: int) -> slice:
        """The columns of one of `parts` equal shares of the batch."""
        if self.batch_size % parts:
            raise ValueError(
                f"batch_size: {self.batch_size} columns cannot be shared by {parts} parts (processes × accumulation)"
            )
        share = self.batch_size // parts
        return slice(part * share, (part + 1) * share)


@dataclass(frozen=True)
class Upkeep:
    """What may change from one start of a run to the next: when to save, and what to do about a NaN.

    Checkpoints are written after so many steps or so many seconds, whichever comes first, at every new best
    validation loss, at the end and when asked to stop. A step with a loss, gradient or memory that is not finite
    never reaches the weights; it ends the run or is left out.
    """

    save_every_steps: int = 1000
    save_every_seconds: float = 300.0
    keep_checkpoints: int = 2
    when_not_finite: Literal["stop", "skip"] = "stop"

    def __post_init__(self) -> None:
        for name in ("save_every_steps", "save_every_seconds", "keep_checkpoints"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: expected a positive number, got {getattr(self, name)}")
