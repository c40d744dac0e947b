"""The training loop: one for every task, resumable to the last bit.

A run that is killed at any moment and started again logs the same losses as one that was not: batches, dropout and
random features are functions of (seed, step), everything else is in the checkpoint.
"""

import math
import time
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fastweights.files import FILE_SYSTEM, FileSystem
from fastweights.runs.directory import RunDirectory
from fastweights.runs.display import Display, RunStatus
from fastweights.runs.signals import StopSignals
from fastweights.training.carried_state import States
from fastweights.training.config import CheckpointPolicy, TrainingConfig
from fastweights.training.distributed import Processes
from fastweights.training.gradients import GradientComputation, StepGradients, TaskLoss
from fastweights.training.progress import Stopwatch, TrainingProgress, finite
from fastweights.training.random_numbers import start_training
from fastweights.training.sharding import WholeModel
from fastweights.training.state import TrainerState
from fastweights.training.stopping import Stopping
from fastweights.training.task import Evaluation, Interrupted, Task
from fastweights.training.tensorboard import Scalars

MOST_SKIPPED = 100
"""Steps in a row without a finite loss, after which skipping is given up."""
SECONDS_BETWEEN_REPORTS = 0.2


class NotFiniteError(FloatingPointError):
    """A loss, gradient or memory that is not finite; the weights have not seen it."""


@dataclass(frozen=True)
class Ending:
    """How a call of `Trainer.run` ended."""

    reason: str | None
    """Why the run is finished; None if it was interrupted."""
    signal: int | None
    progress: TrainingProgress

    @property
    def finished(self) -> bool:
        """True if there is nothing left to train."""
        return self.reason is not None


class Trainer:
    """Trains the model of a task inside a run directory, from wherever the last call stopped."""

    def __init__(
        self,
        task: Task[Any],
        model: nn.Module,
        config: TrainingConfig,
        directory: RunDirectory,
        *,
        stopping: Stopping = Stopping(),  # noqa: B008  a frozen value
        processes: Processes = Processes(),  # noqa: B008
        policy: CheckpointPolicy = CheckpointPolicy(),  # noqa: B008
        display: Display = Display(),  # noqa: B008  quiet
        scalars: Scalars | None = None,
        interrupted: Interrupted = lambda: False,
        file_system: FileSystem = FILE_SYSTEM,
    ) -> None:
        self.task, self.model, self.config, self.directory = task, model, config, directory
        self.stopping, self.processes, self.policy = stopping, processes, policy
        self.display, self.scalars, self.interrupted = display, scalars, interrupted
        self.loss = TaskLoss(task, model)
        self.evaluated = WholeModel(model) if config.sharding == "full" and processes.size > 1 else None
        if self.evaluated is not None:
            processes.shard(self.loss)
        else:
            self.loss.to(processes.device)
        self.gradients = GradientComputation(self.loss, config, processes, policy.when_not_finite != "continue")
        betas = (0.9, config.beta2)
        optimiser = torch.optim.Adam(model.parameters(), lr=config.learning_rate, betas=betas, fused=True)
        nothing: list[States | None] = [None] * config.accumulation
        self.state = TrainerState(
            model, optimiser, nothing, TrainingProgress(), directory, processes, config.batch_size, file_system
        )
        self.rates, self.watch, self.reported = config.rates, Stopwatch(), -math.inf
        self.begins = time.monotonic(), time.process_time()
        """When the run would have begun, had it never been interrupted."""

    def run(self) -> Ending:
        """Train until a rule or a signal says stop; either way the newest checkpoint is where it stopped."""
        devices = [self.processes.device] if self.processes.device.type == "cuda" else []
        with StopSignals() as signals, torch.random.fork_rng(devices):

            def interrupted() -> bool:
                return signals.received is not None or self.interrupted()

            self.state.resume(lambda rows: self.task.initial_states(self.model, rows), self.display.say)
            start_training(self.loss)
            self.watch.restart()
            last_save = time.monotonic()
            self.begins = last_save - self.progress.seconds, time.process_time() - self.progress.core_seconds
            while True:
                best = self._evaluate(interrupted)
                overdue = time.monotonic() - last_save > self.policy.save_every_seconds
                stopping, overdue = self.processes.any_of(interrupted(), overdue)
                reason = self._reason_to_stop(stopping)
                if (best and self.policy.keep_best) or stopping or reason or overdue or self._save_due:
                    self._save()
                    last_save = time.monotonic()
                if reason or stopping:
                    return Ending(reason, signals.received, self.progress)
                self.train_step()

    @property
    def progress(self) -> TrainingProgress:
        """How far the run has come."""
        return self.state.progress

    def _reason_to_stop(self, stopping: bool) -> str | None:
        """Why the run is finished; an evaluation that a signal put off has to come first."""
        if stopping and self._evaluation_due:
            return None
        return self.stopping.reason(self.progress, self.config.steps)

    @property
    def _save_due(self) -> bool:
        return self.progress.step > 0 and self.progress.step % self.policy.save_every_steps == 0

    @property
    def _evaluation_due(self) -> bool:
        step = self.progress.step
        due = step > 0 and (step % self.config.evaluate_every == 0 or step == self.config.steps)
        return due and self.progress.evaluated_step != step

    def train_step(self) -> None:
        """Update the weights once, or not at all if anything about the step is not finite."""
        state, progress, step = self.state, self.progress, self.progress.step
        rate = self.rates(step + 1)
        found = self.gradients(step, state.carried)
        if found.trouble is None:
            for group in state.optimiser.param_groups:
                group["lr"] = rate
            state.optimiser.step()
            state.carried = found.carried
            progress.note_loss(found.loss)
        # What the optimiser's own `zero_grad` does, without what that costs where a step takes a millisecond.
        for group in state.optimiser.param_groups:
            for parameter in group["params"]:
                parameter.grad = None
        if found.trouble is not None:
            self._skip_or_stop(found.trouble)
        progress.step += 1
        self.watch.lap(self.task.units(step))
        self._log(rate, found)

    def _skip_or_stop(self, trouble: str) -> None:
        """Say which step it was; states carried into it are kept, unless the step would have started anew."""
        progress, step = self.progress, self.progress.step
        place = self.task.place(step)
        if self.policy.when_not_finite == "stop" or progress.skipped_in_a_row + 1 >= MOST_SKIPPED:
            skipped = f" after {progress.skipped_in_a_row} skipped steps" if progress.skipped_in_a_row else ""
            try:
                self._save()
            except FloatingPointError as error:
                # The weights were bad before this step began.
                raise NotFiniteError(f"{place}: {trouble}; training stops here{skipped}; {error}") from error
            raise NotFiniteError(f"{place}: {trouble}; training stops here{skipped}, the weights were not changed")
        if self.task.starts_anew(step):
            self.state.carried = [None] * self.config.accumulation
        progress.skipped_in_a_row += 1
        self.directory.log(step=step + 1, epoch=self.task.epoch(step), skipped=trouble)
        if self.processes.first:
            self.display.say(f"{place}: {trouble}; this step is skipped")

    def _log(self, rate: float, found: StepGradients) -> None:
        """Write a line of metrics every few steps, and report to the display."""
        progress, config = self.progress, self.config
        last = progress.step == config.steps
        if config.log_every is not None and (progress.step % config.log_every == 0 or last):
            loss = progress.mean_recent_loss()
            if loss is not None:
                # The loss of an evaluation may be called just that; the two are never one column.
                name = "train_loss" if "loss" in self.task.metric_names() else "loss"
                values = {name: finite(loss), "learning_rate": rate, "gradient_norm": finite(found.norm)}
                self.directory.log(step=progress.step, epoch=self.task.epoch(progress.step - 1), **values)
                speed = self.watch.units_per_second()
                self._draw({**values, **self.task.shown(loss), f"{self.task.unit}s_per_second": speed})
        now = time.monotonic()
        due = last or now - self.reported >= SECONDS_BETWEEN_REPORTS
        if progress.last_loss is not None and self.processes.first and due:
            self.reported = now
            self._report(progress.last_loss)

    def _report(self, loss: float) -> None:
        progress, steps, rate = self.progress, self.config.steps, self.watch.steps_per_second()
        left = (steps - progress.step) / rate if rate else None
        self.display.update(
            RunStatus(
                step=progress.step,
                steps=steps,
                epoch=self.task.epoch(progress.step - 1),
                loss=loss,
                units_per_second=self.watch.units_per_second(),
                steps_per_second=rate,
                seconds_left=left,
                valid_loss=progress.valid_loss,
            )
        )

    def _draw(self, values: dict[str, float | None]) -> None:
        if self.scalars is not None and self.processes.first:
            self.scalars.add(self.progress.step, values)

    def _evaluate(self, interrupted: Interrupted) -> bool:
        """Evaluate if it is time; True if the result is the best so far. A signal puts it off until the next start."""
        if not self._evaluation_due:
            return False
        try:
            with nullcontext(self.model) if self.evaluated is None else self.evaluated.lent() as model:
                evaluation = self.task.evaluate(model.eval(), self.progress.step, interrupted)
        except FloatingPointError as error:
            evaluation = Evaluation(math.nan, dict.fromkeys(self.task.metric_names(), math.nan))
            if self.processes.first:
                self.display.say(f"step {self.progress.step}: no validation loss, {error}")
        start_training(self.loss)
        self.watch.restart()
        if self.processes.any_of(evaluation is None)[0] or evaluation is None:
            return False
        metrics = {name: finite(x) for name, x in evaluation.metrics.items()}
        if self.config.log_every is None:
            metrics["train_loss"] = finite(self.progress.mean_recent_loss())
        self.directory.log(step=self.progress.step, **metrics)
        self._draw(metrics)
        return self.progress.note_evaluation(finite(evaluation.loss))

    def _save(self) -> None:
        self.progress.seconds = time.monotonic() - self.begins[0]
        self.progress.core_seconds = time.process_time() - self.begins[1]
        if self.state.is_saved:
            return
        try:
            self.state.save(self.policy)
        except FloatingPointError:
            # A broken model is not saved: training continues, and a restart resumes from the last good checkpoint.
            if self.policy.when_not_finite != "continue":
                raise
        self.watch.restart()
