"""Training the toy model."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss
from typing_extensions import override

from fastweights.training.carried_state import States
from fastweights.training.config import TrainingConfig
from fastweights.training.task import Evaluation, Interrupted, Share, Task
from toy_family.config import FitConfig


class Points(NamedTuple):
    """Where points are, and how high."""

    x: Tensor
    y: Tensor


class FitTask(Task[Points]):
    """(a x + b - y)², the mean over points; the points of a run are a function of its seed."""

    unit = "point"

    def __init__(self, config: FitConfig, training: TrainingConfig) -> None:
        self.training = training
        generator = torch.Generator().manual_seed(training.seed)
        x = torch.rand(config.points, 1, generator=generator)
        self.points = Points(x, 2 * x - 1 + config.noise * torch.randn(config.points, 1, generator=generator))

    @override
    def build(self) -> nn.Linear:
        torch.manual_seed(self.training.seed)
        return nn.Linear(1, 1)

    @override
    def batch(self, step: int, share: Share) -> Points:
        generator = torch.Generator().manual_seed(1000 * self.training.seed + step)
        chosen = torch.randint(len(self.points.x), (self.training.batch_size,), generator=generator)
        chosen = chosen[share.of(self.training.batch_size)]
        return Points(self.points.x[chosen], self.points.y[chosen])

    @override
    def loss(self, model: nn.Module, batch: Points, states: States | None) -> tuple[Tensor, States | None]:
        return mse_loss(model(batch.x), batch.y), None

    @override
    def evaluate(self, model: nn.Module, step: int, interrupted: Interrupted) -> Evaluation:
        """The distance from the true line."""
        x = torch.linspace(0, 1, 11)[:, None]
        with torch.no_grad():
            loss = float(mse_loss(model(x), 2 * x - 1))
        return Evaluation(loss, {"loss": loss})

    @override
    def metric_names(self) -> tuple[str, ...]:
        return ("loss",)

    @override
    def units(self, step: int) -> int:
        return self.training.batch_size
