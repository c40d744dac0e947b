"""Loading what a run has trained. Nothing heavy is imported before it is asked for."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import nn

    from fastweights.runs.checkpoint import Checkpoint
    from fastweights.training.run import Run

__all__ = ["load_run"]


def load_run(path: Path | str, which: str = "best") -> "tuple[nn.Module, Run, Checkpoint]":
    """The model of a run as it was at its best validation (`best`) or at its newest checkpoint (`newest`)."""
    from fastweights.training.execute import load_model_of

    path = Path(path)
    run = read_run(path)
    model = run.task.empty_model()
    return model, run, load_model_of(path, model, which)


def read_run(path: Path) -> "Run":
    """The run in a folder."""
    from fastweights.experiments.families import codec
    from fastweights.runs.directory import RunDirectory

    config = RunDirectory(path, owner=False).config
    try:
        return codec().from_plain(config)
    except ValueError as error:
        raise ValueError(f"{path / 'config.json'}: corrupted, {error}") from error


def source_file(source: str | None) -> dict[str, str]:
    """The file in the folder of a run that says where its data is, by its name; `source_of` reads it."""
    place = str(Path(source).resolve()) if source and Path(source).exists() else source
    return {"source.json": json.dumps({"source": place}) + "\n"}


def source_of(path: Path) -> str:
    """Where the data of a run was when its training began."""
    from fastweights.files import read_json

    file = path / "source.json"
    source = read_json(file).get("source") if file.exists() else None
    if not isinstance(source, str):
        raise ValueError(f"{path}: the run does not say where its data is; give it as --data")
    return source
