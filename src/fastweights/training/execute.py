"""Carrying out a run in a folder: from its configuration to its result, from wherever it was stopped."""

import shutil
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from fastweights.files import Json
from fastweights.kernels.products import best_products
from fastweights.runs.checkpoint import Checkpoint, best_checkpoint, checkpoints, newest_checkpoint, step_of
from fastweights.runs.directory import InUseError, RunDirectory
from fastweights.runs.display import Display
from fastweights.runs.environment import Environment
from fastweights.runs.record import Record, record_of
from fastweights.training.config import CheckpointPolicy
from fastweights.training.distributed import Processes
from fastweights.training.loop import Ending, Trainer
from fastweights.training.progress import finite
from fastweights.training.run import Run, RunCodec
from fastweights.training.task import Interrupted, Share, Task
from fastweights.training.tensorboard import Scalars
from fastweights.training.tensors import load_model


@dataclass(frozen=True, eq=False)
class Execution:
    """Carries out runs: with these processes and checkpoints, shown here, until interrupted."""

    codec: RunCodec
    processes: Processes = Processes()  # noqa: RUF009  a frozen value
    policy: CheckpointPolicy = CheckpointPolicy()  # noqa: RUF009
    display: Display = Display()  # noqa: RUF009  quiet
    interrupted: Interrupted = lambda: False

    def record(
        self, run: Run, task: Task[Any], path: Path, *, measured: bool = True
    ) -> tuple[Record | None, Ending | None]:
        """Train, measure, and gather the record, with the lock held throughout; no record if it was interrupted.

        The ending is None if the run had ended before. Without `measured` the record holds what training left.
        """
        with one_thread_if(run.task.threads == 1), best_products(), self._open(run, task, path) as (directory, model):
            ending = self._train(run, task, directory, model)
            if ending is not None and not ending.finished:
                return None, ending
            record = None
            if self.processes.first:
                device = self.processes.device
                record = record_of(directory, task.measure(path, device, self.display) if measured else {})
                if not run.task.keeps_model:
                    shutil.rmtree(directory.checkpoints, ignore_errors=True)
            self.processes.broadcast(0)
            return record, ending

    def _train(self, run: Run, task: Task[Any], directory: RunDirectory, model: nn.Module) -> Ending | None:
        if directory.result is not None:
            return None
        scalars = None
        if self.processes.first and run.training.log_every is not None:
            newest = max(map(step_of, checkpoints(directory.checkpoints)), default=0)
            scalars = Scalars.open(directory.path / "tensorboard", newest)
        trainer = Trainer(
            task,
            model,
            run.training,
            directory,
            stopping=run.stopping,
            processes=self.processes,
            policy=self.policy,
            display=self.display,
            scalars=scalars,
            interrupted=self.interrupted,
        )
        try:
            ending = trainer.run()
        finally:
            if scalars is not None:
                scalars.close()
        if ending.finished:
            directory.finish(_result(task, model, directory, ending))
        return ending

    @contextmanager
    def _open(self, run: Run, task: Task[Any], path: Path) -> Iterator[tuple[RunDirectory, nn.Module]]:
        """The run directory and the initial model; the first process owns the directory, the others wait for it."""
        # What cannot be trained should leave no folder behind.
        model = task.build()
        Share(parts=self.processes.size * run.training.accumulation).of(run.training.batch_size)
        if not self.processes.first:
            if self.processes.broadcast(0):
                raise InUseError(f"{path}: the first process could not claim this folder")
            yield RunDirectory(path, owner=False), model
            return
        environment, config = asdict(Environment.here()), self.codec.to_plain(run)
        with ExitStack() as stack:
            try:
                claim = RunDirectory.claim(path, config, environment, self._current)
                directory = stack.enter_context(claim)
                for name, content in task.files().items():
                    directory.keep(name, content)
            except (ValueError, OSError):
                # Processes end together: one that was left alone would wait for the others.
                self.processes.broadcast(1)
                raise
            self.processes.broadcast(0)
            yield directory, model

    def _current(self, config: Json) -> Json:
        """A configuration of any version as today's, without what decides nothing: the name of its preset, sharding."""
        try:
            run = self.codec.from_plain(config)
        except ValueError:
            return config
        return self.codec.to_plain(replace(run, preset="", training=replace(run.training, sharding="none")))


def load_model_of(path: Path, model: nn.Module, which: str = "best") -> Checkpoint:
    """Put the weights of a run's best or newest checkpoint into its model; damaged checkpoints are named and passed."""
    found = (best_checkpoint if which == "best" else newest_checkpoint)(path / "checkpoints")
    if found.checkpoint is None:
        raise ValueError(f"{path}: there is no checkpoint yet")
    for problem in found.damaged.values():
        print(f"{problem}; that of step {found.checkpoint.step} is used", file=sys.stderr)
    RunDirectory(path, owner=False).refuse_foreign(found.checkpoint.state, str(path))
    load_model(model, found.checkpoint.model, str(path))
    model.eval()
    return found.checkpoint


@contextmanager
def one_thread_if(wanted: bool) -> Iterator[None]:
    """Let torch use one thread inside, so that sums are always added in one order."""
    threads = torch.get_num_threads()
    if wanted:
        torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _result(task: Task[Any], model: nn.Module, directory: RunDirectory, ending: Ending) -> Json:
    """How a run ended; losses that were not finite are null."""
    progress = ending.progress
    # Lines between evaluations have a learning rate, and those of steps that were left out say so.
    between = {"learning_rate", "skipped"}
    evaluations = [line for line in directory.lines() if line.keys().isdisjoint(between)]
    return {
        "steps": progress.step,
        "stopped_because": ending.reason,
        "last_loss": finite(progress.last_loss),
        "best_loss": progress.best_loss,
        "best_step": progress.best_step,
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "seconds": round(progress.seconds, 3),
        "core_seconds": round(progress.core_seconds, 3),
        **task.summary(evaluations),
    }
