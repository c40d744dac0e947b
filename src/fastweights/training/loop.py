"""The training loop: truncated back-propagation over segments, resumable to the last bit.

A run that is killed at any moment and started again logs the same losses as one that was not: data, dropout and random
features are functions of (seed, step), everything else is in the checkpoint.
"""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from fastweights.data.text.segments import Segment, SegmentStream
from fastweights.data.text.cache import TokenArray
from fastweights.training.carried_state import refuse_growing_states
from fastweights.training.config import TrainingConfig, Upkeep
from fastweights.files import Disk
from fastweights.training.distributed import World
from fastweights.training.gradients import GradientComputation, StepGradients
from fastweights.training.progress import Journal, Progress, Stopwatch
from fastweights.training.random_numbers import start_training
from fastweights.runs.directory import RunDirectory
from fastweights.training.state import SavedRun
from fastweights.training.segment_loss import Predictor, SegmentLoss
from fastweights.runs.signals import StopSignals
from fastweights.training.tensorboard import Scalars

MOST_SKIPPED = 100
"""Steps in a row without a finite loss, after which skipping is given up."""

Evaluate = Callable[[Callable[[], bool]], float | None]
"""The validation loss of the model as it is; None if the given function said that it should stop."""


class NotFiniteError(FloatingPointError):
    """A loss, gradient or memory that is not finite; the weights have not seen it."""


@dataclass(frozen=True)
class Outcome:
    """How a call of `Trainer.run` ended."""

    finished: bool
    signal: int | None
    journal: Journal


@dataclass(frozen=True, eq=False)
class Hooks:
    """What a caller may attach: validation, a display, lines for the user, curves."""

    evaluate: Evaluate | None = None
    on_progress: Callable[[Progress], None] = lambda progress: None
    say: Callable[[str], None] = print
    scalars: Scalars | None = None


class Trainer:
    """Trains a model on a stream of tokens inside a run directory, from wherever the last call stopped."""

    def __init__(
        self,
        model: Predictor,
        tokens: TokenArray,
        config: TrainingConfig,
        directory: RunDirectory,
        *,
        world: World = World(),  # noqa: B008  a frozen value
        upkeep: Upkeep = Upkeep(),  # noqa: B008
        hooks: Hooks = Hooks(),  # noqa: B008
        disk: Disk | None = None,
    ) -> None:
        self.config, self.directory, self.world, self.upkeep, self.hooks = config, directory, world, upkeep, hooks
        config.columns(0, world.size * config.accumulation)
        self.stream = SegmentStream(tokens, config.batch_size, config.segment_length, config.shuffle, config.seed)
        self.loss = SegmentLoss(model).to(world.device)
        self.gradients = GradientComputation(self.loss, config, world)
        assert isinstance(model, nn.Module)
        self.model = model
        optimiser = torch.optim.Adam(model.parameters(), lr=config.learning_rate, fused=True)
        nothing: list[list[Any] | None] = [None] * config.accumulation
        self.run_state = SavedRun(model, optimiser, nothing, Journal(), config, directory, world, disk or Disk())
        self.watch = Stopwatch()

    def run(self) -> Outcome:
        """Go on until the last step or a signal; either way the newest checkpoint is where it stopped."""
        devices = [self.world.device] if self.world.device.type == "cuda" else []
        with StopSignals() as stop, torch.random.fork_rng(devices):
            self._start()
            started, before = time.monotonic(), self.journal.seconds
            last_save = started
            while True:
                best = self._evaluate(stop)
                overdue = time.monotonic() - last_save > self.upkeep.save_every_seconds
                stopping, overdue = self.world.any(stop.received is not None, overdue)
                finished = self.journal.step >= self.config.steps and not (stopping and self._evaluation_due)
                self.journal.seconds = before + time.monotonic() - started
                if best or stopping or finished or overdue or self._save_due:
                    self._save()
                    last_save = time.monotonic()
                if finished or stopping:
                    return Outcome(finished, stop.received, self.journal)
                self._train_step()

    @property
    def journal(self) -> Journal:
        """Where the run is."""
        return self.run_state.journal

    @property
    def _save_due(self) -> bool:
        return self.journal.step > 0 and self.journal.step % self.upkeep.save_every_steps == 0

    @property
    def _evaluation_due(self) -> bool:
        step = self.journal.step
        due = step > 0 and (step % self.config.evaluate_every == 0 or step == self.config.steps)
        return self.hooks.evaluate is not None and due and self.journal.evaluated_step != step

    def _start(self) -> None:
        self.run_state.resume(self._template, self.hooks.say)
        if self.config.carry_state:
            refuse_growing_states(self._template())
        start_training(self.loss)

    def _train_step(self) -> None:
        """One update of the weights, or none if anything about it is not finite."""
        state, journal = self.run_state, self.journal
        rate = self.config.schedule(journal.step + 1)
        segment = self.stream.at(journal.step, self.config.columns(self.world.rank, self.world.size))
        found = self.gradients(segment, journal.step, state.states)
        if found.trouble is None:
            for group in state.optimiser.param_groups:
                group["lr"] = rate
            state.optimiser.step()
            state.states = found.states
            journal.note_loss(found.loss)
        state.optimiser.zero_grad(set_to_none=True)
        if found.trouble is not None:
            self._skip_or_stop(found.trouble, segment)
        journal.step += 1
        self.watch.lap(self.config.batch_size * segment.inputs.shape[1])
        self._log(segment, rate, found)

    def _skip_or_stop(self, trouble: str, segment: Segment) -> None:
        """Tell which step it was; what was carried into it is carried on, but not from one epoch to the next."""
        journal = self.journal
        place = f"step {journal.step + 1} (epoch {segment.epoch}, segment {journal.step % self.stream.segments})"
        if self.upkeep.when_not_finite == "stop" or journal.skipped_in_a_row + 1 >= MOST_SKIPPED:
            skipped = f" after {journal.skipped_in_a_row} skipped steps" if journal.skipped_in_a_row else ""
            try:
                self._save()
            except FloatingPointError as error:
                # The weights were bad before this step began.
                raise NotFiniteError(f"{place}: {trouble}; training stops here{skipped}; {error}") from error
            raise NotFiniteError(f"{place}: {trouble}; training stops here{skipped}, the weights were not changed")
        if segment.first:
            self.run_state.states = [None] * self.config.accumulation
        journal.skipped_in_a_row += 1
        self.directory.log(step=journal.step + 1, epoch=segment.epoch, skipped=trouble)
        if self.world.first:
            self.hooks.say(f"{place}: {trouble}; this step is skipped")

    def _log(self, segment: Segment, rate: float, found: StepGradients) -> None:
        """A line of metrics every few steps, and the display."""
        journal, config, speed = self.journal, self.config, self.watch.tokens_per_second()
        if journal.step % config.log_every == 0 or journal.step == config.steps:
            loss = journal.mean_recent_loss()
            if loss is not None:
                norm = found.norm if math.isfinite(found.norm) else None
                values = {"loss": loss, "learning_rate": rate, "gradient_norm": norm}
                self.directory.log(step=journal.step, epoch=segment.epoch, **values)
                self._draw({**values, "perplexity": math.exp(min(loss, 700)), "tokens_per_second": speed})
        if journal.last_loss is not None and self.world.first:
            left = (config.steps - journal.step) * config.batch_size * config.segment_length / speed if speed else None
            self.hooks.on_progress(
                Progress(journal.step, config.steps, segment.epoch, journal.last_loss, speed, left, journal.valid_loss)
            )

    def _draw(self, values: dict[str, float | None]) -> None:
        if self.hooks.scalars is not None and self.world.first:
            self.hooks.scalars.add(self.journal.step, values)

    def _evaluate(self, stop: StopSignals) -> bool:
        """Validate if it is time; whether the result is the best so far. A signal puts it off until the next start."""
        if not self._evaluation_due or self.hooks.evaluate is None:
            return False
        self.model.eval()
        try:
            loss = self.hooks.evaluate(lambda: stop.received is not None)
        except FloatingPointError as error:
            loss = math.nan
            if self.world.first:
                self.hooks.say(f"step {self.journal.step}: no validation loss, {error}")
        start_training(self.loss)
        self.watch.pause()
        if self.world.any(loss is None)[0] or loss is None:
            return False
        finite = loss if math.isfinite(loss) else None
        self.directory.log(step=self.journal.step, valid_loss=finite)
        self._draw({"valid_loss": finite})
        return self.journal.note_evaluation(finite)

    def _save(self) -> None:
        if not self.run_state.is_saved:
            self.run_state.save(self.upkeep)
            self.watch.pause()

    def _template(self) -> list[Any]:
        """States of the model's kinds, whatever they hold."""
        self.model.eval()
        with torch.no_grad(), self.config.autocast(self.world.device):
            _, states = self.loss.model(torch.zeros(1, 1, dtype=torch.int64, device=self.world.device))
        return list(states)
