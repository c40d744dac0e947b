"""A run in memory and its checkpoints: everything that has to be the same again after a restart."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from fastweights.training.carried_state import join_rows, rows_of, state_tensors, states_from_tensors
from fastweights.runs.checkpoint import (
    Checkpoint,
    checkpoint_path,
    load_checkpoint,
    newest_checkpoint,
    remove_unfinished,
    save_checkpoint,
    set_aside,
)
from fastweights.training.config import TrainingConfig, Upkeep
from fastweights.files import Disk
from fastweights.training.distributed import World
from fastweights.training.gradients import Carried
from fastweights.training.progress import Journal
from fastweights.training.tensors import load_model, load_optimiser, model_tensors, optimiser_tensors
from fastweights.runs.directory import RunDirectory


@dataclass(eq=False)
class SavedRun:
    """Weights, moments, carried states and counters, with the directory that keeps them."""

    model: nn.Module
    optimiser: torch.optim.Adam
    states: Carried
    journal: Journal
    config: TrainingConfig
    directory: RunDirectory
    world: World
    disk: Disk
    saved: tuple[int, int] = (0, 0)
    """Step and evaluated step of the newest checkpoint."""

    @property
    def is_saved(self) -> bool:
        """Whether the newest checkpoint is of this very moment."""
        return self.saved == (self.journal.step, self.journal.evaluated_step)

    def save(self, upkeep: Upkeep) -> None:
        """Write a checkpoint; a disk that does not take it ends the run, with the last good one untouched."""
        parts = [state_tensors(states) for states in self.states if states is not None]
        carried = join_rows(self.world.gather(join_rows(parts)))
        self.journal.metrics_bytes = self.directory.settle_metrics()
        trouble = self._write(carried, upkeep) if self.world.first else None
        # Processes end together: one that was left alone would wait for the others.
        if self.world.any(trouble is not None)[0]:
            raise trouble or OSError(f"{self.directory.path}: the first process could not save its checkpoint")
        self.saved = (self.journal.step, self.journal.evaluated_step)

    def _write(self, carried: dict[str, Tensor], upkeep: Upkeep) -> Exception | None:
        """Write the files of a checkpoint; what went wrong, if anything."""
        moments = optimiser_tensors(self.optimiser, self.model)
        state = {**self.journal.to_plain(), "run": self.directory.identity}
        checkpoint = Checkpoint(self.journal.step, model_tensors(self.model), moments, carried, state)
        keep, best = upkeep.keep_checkpoints, self.journal.best_step
        try:
            save_checkpoint(self.directory.checkpoints, checkpoint, keep=keep, best=best, disk=self.disk)
        except FloatingPointError as error:
            return error
        except OSError as error:
            kept = f"that of step {self.saved[0]} is untouched" if self.saved[0] else "there is no earlier one"
            return OSError(
                f"{self.directory.path}: the checkpoint of step {self.journal.step} could not be saved "
                f"({error.strerror or error}); {kept}, and the same command goes on from there"
            )
        return None

    def resume(self, template: Callable[[], list[Any]], say: Callable[[str], None]) -> None:
        """Take everything from the newest good checkpoint, if there is one; `template` gives states of the model."""
        checkpoint = self._newest(say)
        if checkpoint is not None:
            source = str(checkpoint_path(self.directory.checkpoints, checkpoint.step))
            self.directory.refuse_foreign(checkpoint.state, source)
            self.journal = Journal.from_plain(checkpoint.state, source)
            self.saved = (self.journal.step, self.journal.evaluated_step)
            load_model(self.model, checkpoint.model, source)
            load_optimiser(self.optimiser, self.model, checkpoint.optimiser, source)
            if checkpoint.carried:
                self._restore_states(template(), dict(checkpoint.carried))
        if not self.directory.rewind_metrics(self.journal.metrics_bytes):
            say(f"{self.directory.metrics}: shorter than when the checkpoint was written; lines are missing there")

    def _newest(self, say: Callable[[str], None]) -> Checkpoint | None:
        """The newest good checkpoint as the first process finds it; damaged ones are put aside."""
        folder = self.directory.checkpoints
        checkpoint = None
        if self.world.first:
            remove_unfinished(folder, self.disk)
            found = newest_checkpoint(folder)
            for path, problem in found.damaged.items():
                say(f"{problem}; it is kept as {set_aside(path).name} and an earlier one is used")
            checkpoint = found.checkpoint
        step = self.world.from_first(-1 if checkpoint is None else checkpoint.step)
        if step < 0 or self.world.first:
            return checkpoint
        return load_checkpoint(checkpoint_path(folder, step))

    def _restore_states(self, template: list[Any], tensors: dict[str, Tensor]) -> None:
        parts = self.world.size * self.config.accumulation
        for part in range(self.config.accumulation):
            columns = self.config.columns(self.world.rank * self.config.accumulation + part, parts)
            mine = {name: tensor.to(self.world.device) for name, tensor in rows_of(tensors, columns).items()}
            rows = columns.stop - columns.start
            self.states[part] = [state.clone() for state in states_from_tensors(template, mine, rows)]
