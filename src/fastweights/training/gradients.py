"""Gradients of one training step: the batch in shares over parts and processes, and a check that all is finite."""

import math
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from typing_extensions import override

from fastweights.layers.exact.overflow import unwatched
from fastweights.training.carried_state import States, all_finite
from fastweights.training.config import TrainingConfig
from fastweights.training.distributed import Processes
from fastweights.training.random_numbers import DropoutMasks, RandomFeatures
from fastweights.training.sharding import whole
from fastweights.training.task import Share, Task


@dataclass(frozen=True, eq=False)
class StepGradients:
    """The loss, the carried states and the gradient norm; the gradients are in the parameters, averaged and clipped."""

    loss: float
    carried: list[States | None]
    norm: float
    trouble: str | None = None
    """Names what is not finite; None if everything is. If something is not, no other field may be used."""


class TaskLoss(nn.Module):
    """A model and its task's loss as one module: what is differentiated, and what DistributedDataParallel wraps."""

    def __init__(self, task: Task[Any], model: nn.Module) -> None:
        super().__init__()
        self.task, self.model = task, model

    @override
    def forward(self, batch: Any, states: States | None) -> tuple[Tensor, States | None]:
        return self.task.loss(self.model, batch, states)


class GradientComputation:
    """Forward and backward of a step, in `accumulation` parts on each of the processes."""

    def __init__(self, loss: TaskLoss, config: TrainingConfig, processes: Processes, checked: bool) -> None:
        self.loss, self.task, self.config, self.processes = loss, loss.task, config, processes
        self.checked = checked
        """False to let losses and gradients through that are not finite."""
        self.dropout, self.features = DropoutMasks(loss), RandomFeatures(loss)

    def __call__(self, step: int, carried: list[States | None]) -> StepGradients:
        """Leave the gradient of the mean loss over all rows of all processes in the parameters."""
        config, after, losses = self.config, list(carried), []
        if self.task.starts_anew(step):
            self.features.redraw(config.seed, step)
        for part in range(config.accumulation):
            share = self.share(part)
            last = part == config.accumulation - 1
            with nullcontext() if last else self.processes.without_averaging(self.loss):
                loss, after[part], trouble = self._forward(step, share, carried[part])
                # All processes give up together: one that did not call backward would leave the others waiting.
                if self.processes.any_of(trouble is not None)[0]:
                    self.processes.give_up(self.loss)
                    return StepGradients(math.nan, carried, math.nan, trouble or "another process met such a number")
                (loss / config.accumulation if config.accumulation > 1 else loss).backward()
            losses.append(loss.detach())
        # One read for everything: on a GPU the host waits at each of them until the step is done.
        parts = torch.stack([*losses, *self._clipped_norm(losses[0])]).tolist()
        norm = parts.pop() if len(parts) > len(losses) else 0.0
        total = sum(part / config.accumulation for part in parts)
        trouble = None if not self.checked or math.isfinite(norm) else f"the gradient norm is {norm}"
        return StepGradients(self.processes.mean(total), after, norm, trouble)

    def share(self, part: int) -> Share:
        """The share of the batch that is a part of this process's."""
        parts = self.processes.size * self.config.accumulation
        return Share(self.processes.rank * self.config.accumulation + part, parts)

    def _clipped_norm(self, like: Tensor) -> list[Tensor]:
        """Clip the gradients and return their norm before, as a tensor like this one; nothing if nobody asks for it."""
        if self.config.clip_norm is None and not self.checked:
            return []
        limit = math.inf if self.config.clip_norm is None else self.config.clip_norm
        return [whole(torch.nn.utils.clip_grad_norm_(self.loss.parameters(), limit)).to(like)]

    def _forward(self, step: int, share: Share, before: States | None) -> tuple[Tensor, States | None, str | None]:
        """The loss, the states after the step if these are carried, and what is not finite."""
        config, batch = self.config, self.task.batch(step, share)
        dropout = self.dropout.of_rows(self.task.rows(step, share), config.seed, step)
        # One process that raised in the middle of a model would leave the others waiting for its share.
        watch = unwatched() if self.processes.is_sharded(self.loss) else nullcontext()
        try:
            with dropout, config.autocast(self.processes.device), watch:
                loss, states = self.processes.averaging(self.loss)(batch, before)
        except FloatingPointError as error:
            if not self.checked:
                raise
            return torch.tensor(math.nan), None, str(error)
        # On a GPU the gradient norm tells: to ask here, the host would wait for the forward pass.
        if not self.checked or loss.device.type != "cpu":
            return loss, states, None
        if not loss.isfinite():
            return loss, None, f"the loss is {float(loss.detach())}"
        bad = states is not None and not all_finite(states)
        return loss, states, "the carried memory is not finite" if bad else None
