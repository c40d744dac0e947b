"""Loading what a run has trained."""

from pathlib import Path

from torch import nn

from fastweights.experiments.families import codec
from fastweights.runs.checkpoint import Checkpoint
from fastweights.runs.directory import RunDirectory
from fastweights.training.execute import load_model_of
from fastweights.training.run import Run

__all__ = ["load_run"]


def load_run(path: Path | str, which: str = "best") -> tuple[nn.Module, Run, Checkpoint]:
    """The model of a run as it was at its best validation (`best`) or at its newest checkpoint (`newest`)."""
    path = Path(path)
    run = read_run(path)
    model = run.task.empty_model()
    return model, run, load_model_of(path, model, which)


def read_run(path: Path) -> Run:
    """What the run in a folder is."""
    config = RunDirectory(path, owner=False).config
    try:
        return codec().from_plain(config)
    except ValueError as error:
        raise ValueError(f"{path / 'config.json'}: corrupted, {error}") from error
