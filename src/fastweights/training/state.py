"""The state of a training run and its checkpoints: everything that has to be the same again after a restart."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from fastweights.files import FILE_SYSTEM, FileSystem
from fastweights.runs.checkpoint import (
    Checkpoint,
    checkpoint_path,
    load_checkpoint,
    newest_checkpoint,
    remove_unfinished,
    save_checkpoint,
    set_aside,
)
from fastweights.runs.directory import RunDirectory
from fastweights.training.carried_state import States, join_rows, state_tensors, states_from_tensors
from fastweights.training.config import CheckpointPolicy
from fastweights.training.distributed import Processes
from fastweights.training.progress import TrainingProgress
from fastweights.training.sharding import gathered
from fastweights.training.task import Share
from fastweights.training.tensors import load_model, load_optimiser, model_tensors, optimiser_tensors


@dataclass(eq=False)
class TrainerState:
    """Weights, moments, carried states and counters, with the directory that keeps them."""

    model: nn.Module
    optimiser: torch.optim.Adam
    carried: list[States | None]
    """The states of the layers for each accumulation part of this process, None if nothing is carried."""
    progress: TrainingProgress
    directory: RunDirectory
    processes: Processes
    batch_size: int
    """Rows that the carried states of all processes have together."""
    file_system: FileSystem = FILE_SYSTEM
    saved: tuple[int, int] = (0, 0)
    """Step and evaluated step of the newest checkpoint."""

    @property
    def is_saved(self) -> bool:
        """True if nothing has changed since the newest checkpoint."""
        return self.saved == (self.progress.step, self.progress.evaluated_step)

    def save(self, policy: CheckpointPolicy) -> None:
        """Write a checkpoint; a disk that does not take it ends the run, with the last good one untouched."""
        parts = [state_tensors(states) for states in self.carried if states is not None]
        carried = join_rows(self.processes.gather(join_rows(parts)))
        first = self.processes.first
        model = gathered(model_tensors(self.model), keep=first)
        moments = gathered(optimiser_tensors(self.optimiser, self.model), keep=first)
        self.progress.metrics_bytes = self.directory.settle_metrics()
        state = {**self.progress.to_plain(), "run": self.directory.identity} if first else {}
        trouble = self._write(Checkpoint(self.progress.step, model, moments, carried, state), policy) if first else None
        # Processes end together: one that was left alone would wait for the others.
        if self.processes.any_of(trouble is not None)[0]:
            raise trouble or OSError(f"{self.directory.path}: the first process could not save its checkpoint")
        self.saved = (self.progress.step, self.progress.evaluated_step)

    def _write(self, checkpoint: Checkpoint, policy: CheckpointPolicy) -> Exception | None:
        """Write the files of a checkpoint and return the error, if any."""
        best = self.progress.best_step if policy.keep_best else None
        try:
            save_checkpoint(
                self.directory.checkpoints,
                checkpoint,
                keep=policy.keep_checkpoints,
                best=best,
                file_system=self.file_system,
            )
        except FloatingPointError as error:
            return error
        except OSError as error:
            kept = (
                f"that of step {self.saved[0]} is untouched; run the same command again to resume"
                if self.saved[0]
                else "there is no earlier one; the same command starts from the beginning"
            )
            return OSError(
                f"{self.directory.path}: the checkpoint of step {self.progress.step} could not be saved "
                f"({error.strerror or error}); {kept}"
            )
        return None

    def resume(self, initial_states: Callable[[int], States | None], say: Callable[[str], None]) -> None:
        """Restore everything from the newest good checkpoint, if there is one.

        `initial_states` gives empty states of a number of rows; the carried ones must match them.
        """
        checkpoint = self._newest(say)
        if checkpoint is not None:
            source = str(checkpoint_path(self.directory.checkpoints, checkpoint.step))
            self.directory.refuse_foreign(checkpoint.state, source)
            self.progress = TrainingProgress.from_plain(checkpoint.state, source)
            self.saved = (self.progress.step, self.progress.evaluated_step)
            load_model(self.model, checkpoint.model, source)
            load_optimiser(self.optimiser, self.model, checkpoint.optimiser, source)
            if checkpoint.carried:
                self._restore_carried(initial_states, dict(checkpoint.carried))
        if not self.directory.rewind_metrics(self.progress.metrics_bytes):
            say(f"{self.directory.metrics}: shorter than when the checkpoint was written; lines are missing there")

    def _newest(self, say: Callable[[str], None]) -> Checkpoint | None:
        """The newest good checkpoint as the first process finds it; damaged ones are set aside."""
        folder = self.directory.checkpoints
        checkpoint = None
        if self.processes.first:
            remove_unfinished(folder, self.file_system)
            found = newest_checkpoint(folder)
            for path, problem in found.damaged.items():
                say(f"{problem}; it is kept as {set_aside(path).name} and an earlier one is used")
            checkpoint = found.checkpoint
        step = self.processes.broadcast(-1 if checkpoint is None else checkpoint.step)
        if step < 0 or self.processes.first:
            return checkpoint
        return load_checkpoint(checkpoint_path(folder, step))

    def _restore_carried(self, initial_states: Callable[[int], States | None], tensors: dict[str, Tensor]) -> None:
        for name, tensor in tensors.items():
            if tensor.shape[:1] != (self.batch_size,):
                shape = tuple(tensor.shape)
                raise ValueError(
                    f"states: {name} is that of another model, of shape {shape}, not {self.batch_size} rows"
                )
        parts = self.processes.size * len(self.carried)
        for part in range(len(self.carried)):
            rows = Share(self.processes.rank * len(self.carried) + part, parts).of(self.batch_size)
            empty = initial_states(rows.stop - rows.start)
            if empty is None:
                raise ValueError("states: a task that carries nothing cannot restore them")
            mine = {name: x[rows].to(self.processes.device) for name, x in tensors.items()}
            restored = states_from_tensors(empty, mine, rows.stop - rows.start)
            self.carried[part] = [state.clone() for state in restored]
