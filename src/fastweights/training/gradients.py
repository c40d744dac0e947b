"""Gradients of one training step: the batch in parts and over processes, and a look at whether all of it is finite."""

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from fastweights.data.segments import Segment
from fastweights.layers.exact.overflow import gradients_unwatched
from fastweights.training.carried_state import all_finite
from fastweights.training.config import TrainingConfig
from fastweights.training.distributed import World
from fastweights.training.random_numbers import dropout_of_rows, redraw_features, seed_for
from fastweights.training.segment_loss import SegmentLoss

Carried = list[list[Any] | None]
"""For each part of this process's columns the states of the layers, or None for empty ones."""


@dataclass(frozen=True, eq=False)
class StepGradients:
    """What a step found; the gradients themselves are in the parameters, averaged and clipped."""

    loss: float
    states: Carried
    norm: float
    trouble: str | None = None
    """What is not finite, if anything: then nothing here may be used."""


class GradientComputation:
    """Forward and backward of a segment, in `accumulation` parts on each of the processes."""

    def __init__(self, loss: SegmentLoss, config: TrainingConfig, world: World) -> None:
        self.loss, self.config, self.world = loss, config, world

    def __call__(self, segment: Segment, step: int, states: Carried) -> StepGradients:
        """Leave the gradient of the mean loss over all columns of all processes in the parameters."""
        config, after = self.config, list(states)
        if segment.first or not config.carry_state:
            redraw_features(self.loss, seed_for("features", config.seed, step))
        total, share = 0.0, segment.inputs.shape[0] // config.accumulation
        for part in range(config.accumulation):
            rows = slice(part * share, (part + 1) * share)
            before = states[part] if config.carry_state and not segment.first else None
            last = part == config.accumulation - 1
            with nullcontext() if last else self.world.without_averaging(self.loss):
                with self._dropout(step, part):
                    loss, after[part], trouble = self._forward(segment.inputs[rows], segment.targets[rows], before)
                # All processes give up together: one that did not call backward would leave the others waiting.
                if self.world.any(trouble is not None)[0]:
                    return StepGradients(math.nan, states, math.nan, trouble or "another process met such a number")
                (loss / config.accumulation).backward()
            total += float(loss.detach()) / config.accumulation
        norm = float(torch.nn.utils.clip_grad_norm_(self.loss.parameters(), config.clip_norm))
        trouble = None if math.isfinite(norm) else f"the gradient norm is {norm}"
        return StepGradients(self.world.mean(total), after, norm, trouble)

    def _dropout(self, step: int, part: int) -> AbstractContextManager[None]:
        """Masks of a part of this process's columns: functions of the step and of the columns, whoever has them."""
        parts = self.world.size * self.config.accumulation
        columns = self.config.columns(self.world.rank * self.config.accumulation + part, parts)
        numbers = range(columns.start, columns.stop)
        return dropout_of_rows(self.loss, [seed_for("dropout", self.config.seed, step, number) for number in numbers])

    def _forward(
        self, inputs: Tensor, targets: Tensor, before: list[Any] | None
    ) -> tuple[Tensor, list[Any] | None, str | None]:
        """The loss, the states after the segment if these are carried, and what is not finite."""
        device = self.world.device
        try:
            # One process that gave up in the middle of its backward pass would leave the others waiting.
            with gradients_unwatched(), self.config.autocast(device):
                loss, states = self.world.averaging(self.loss)(inputs.to(device), targets.to(device), before)
        except FloatingPointError as error:
            return torch.tensor(math.nan), None, str(error)
        if not loss.isfinite():
            return loss, None, f"the loss is {float(loss.detach())}"
        if not self.config.carry_state:
            return loss, None, None
        carried = [state.detach().clone() for state in states]
        return loss, carried, None if all_finite(carried) else "the carried memory is not finite"
