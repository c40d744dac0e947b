"""The smallest task: fit a line to points that follow from the seed and the step. Nothing but what a task must have."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from fastweights.config import ConfigCodec
from fastweights.files import Json
from fastweights.training.config import TrainingConfig
from fastweights.training.run import RunCodec
from fastweights.training.task import Evaluation, Interrupted, Share, Task, TaskConfig


@dataclass(frozen=True)
class LineConfig(TaskConfig):
    """y = slope x."""

    slope: float = 2.0

    threads: ClassVar[int | None] = 1
    keeps_model: ClassVar[bool] = False

    def open(self, training: TrainingConfig, data: str | None) -> "LineTask":
        return LineTask(self, training)


class LineTask(Task[tuple[Tensor, Tensor]]):
    """Least squares."""

    def __init__(self, config: LineConfig, training: TrainingConfig) -> None:
        self.config, self.training = config, training
        self.summed: list[Sequence[Json]] = []

    def build(self) -> nn.Module:
        torch.manual_seed(self.training.seed)
        return nn.Linear(1, 1)

    def batch(self, step: int, share: Share) -> tuple[Tensor, Tensor]:
        rows = self.training.batch_size
        x = torch.randn(rows, 1, generator=torch.Generator().manual_seed(step))[share.of(rows)]
        return x, self.config.slope * x

    def loss(self, model: nn.Module, batch: tuple[Tensor, Tensor], states: Any) -> tuple[Tensor, None]:
        x, y = batch
        return (model(x) - y).square().mean(), None

    def evaluate(self, model: nn.Module, step: int, interrupted: Interrupted) -> Evaluation:
        x = torch.linspace(-1, 1, 5)[:, None]
        with torch.no_grad():
            loss = float((model(x) - self.config.slope * x).square().mean())
        return Evaluation(loss, {"loss": loss, "twice": 2 * loss})

    def metric_names(self) -> tuple[str, ...]:
        return "loss", "twice"

    def units(self, step: int) -> int:
        return self.training.batch_size

    def summary(self, evaluations: Sequence[Json]) -> Json:
        self.summed.append(evaluations)
        return {"last_twice": evaluations[-1]["twice"]}


CODEC = RunCodec(ConfigCodec({TaskConfig: {"line": LineConfig}}))
