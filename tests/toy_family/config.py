"""The toy task as a value."""

from dataclasses import dataclass
from typing import Any, ClassVar

from torch import nn
from typing_extensions import override

from fastweights.training.config import TrainingConfig
from fastweights.training.task import Task, TaskConfig


@dataclass(frozen=True)
class FitConfig(TaskConfig):
    """Fit a x + b to points y = 2 x - 1 + noise."""

    points: int = 50
    noise: float = 0.1

    threads: ClassVar[int | None] = 1

    def __post_init__(self) -> None:
        if self.points < 2:
            raise ValueError(f"points: two make a line, got {self.points}")

    @override
    def open(self, training: TrainingConfig, data: str | None) -> Task[Any]:
        from toy_family.task import FitTask

        return FitTask(self, training)

    @override
    def empty_model(self) -> nn.Module:
        return nn.Linear(1, 1)

    @property
    @override
    def slug(self) -> str:
        return f"fit-{self.points}"


CONFIG = FitConfig
