"""One folder per run, with one owner at a time.

config.json        what the run is; another run in the same folder is refused
environment.json   where it started
metrics.jsonl      one line per event, the same however often the run is killed
checkpoints/       see checkpoint.py
result.json        how it ended
"""

import hashlib
import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastweights.files import Json, exclusive, read_json, to_json, write_whole


class RunDirectory:
    """The files of a run. A process that is not the owner (a helper under torchrun) reads and writes nothing."""

    def __init__(self, path: Path, owner: bool = True) -> None:
        self.path, self.owner = path, owner
        self.checkpoints = path / "checkpoints"
        self.metrics = path / "metrics.jsonl"

    @classmethod
    @contextmanager
    def claim(
        cls, path: Path, config: Json, environment: Json, current: Callable[[Json], Json] = lambda config: config
    ) -> "Iterator[RunDirectory]":
        """Own a new or an existing run directory for as long as the context lasts.

        `current` brings a configuration that an earlier version wrote into today's form before the two are compared.
        """
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path}: expected a folder for the run, this is a file")
        if path.is_dir() and not (path / "config.json").exists() and _has_content(path):
            raise ValueError(f"{path}: this folder holds other things than a run; name a new or an empty one")
        _make_writable(path)
        with exclusive(path) as owner:
            if owner is not None:
                raise InUseError(f"{path}: in use by another process ({owner or 'unknown'})")
            directory = cls(path)
            directory._start(config, environment, current)
            yield directory

    @property
    def config(self) -> Json:
        """The configuration of the run, as it was written."""
        if not (self.path / "config.json").exists():
            raise ValueError(f"{self.path}: this is not the folder of a run, there is no config.json")
        return read_json(self.path / "config.json")

    @property
    def identity(self) -> str:
        """Changes with anything that decides the run's numbers; checkpoints carry it."""
        return hashlib.sha256(json.dumps(self.config, sort_keys=True).encode()).hexdigest()[:24]

    def refuse_foreign(self, state: Json, source: str) -> None:
        """Raise if a checkpoint belongs to another run, even where its tensors would fit."""
        if state.get("run", self.identity) != self.identity:
            raise ValueError(f"{source}: a checkpoint of another run than that of {self.path / 'config.json'}")

    @property
    def result(self) -> Json | None:
        """How the run ended, if it has."""
        return read_json(self.path / "result.json") if (self.path / "result.json").exists() else None

    def finish(self, result: Json) -> None:
        """Write how the run ended."""
        if self.owner:
            write_whole(self.path / "result.json", to_json(result))

    def keep(self, name: str, content: str) -> None:
        """Write a file of the run unless it is there already."""
        if self.owner and not (self.path / name).exists():
            write_whole(self.path / name, content)

    def log(self, **values: Any) -> None:
        """Add a line to the metrics."""
        if self.owner:
            try:
                with self.metrics.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(values, allow_nan=False) + "\n")
            except OSError as error:
                raise OSError(
                    f"{self.metrics}: could not be written ({error.strerror}); the last checkpoint is untouched; "
                    "run the same command again to resume"
                ) from error

    def lines(self) -> list[Json]:
        """The metrics so far."""
        if not self.metrics.exists():
            return []
        return [json.loads(line) for line in self.metrics.read_text(encoding="utf-8").splitlines()]

    def settle_metrics(self) -> int:
        """Flush the metrics to the disk and return their size in bytes."""
        if not self.owner or not self.metrics.exists():
            return 0
        with self.metrics.open("rb") as file:
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size

    def rewind_metrics(self, size: int) -> bool:
        """Remove the lines that were written after a checkpoint; False if some from before it are missing."""
        if not self.owner:
            return True
        there = self.metrics.stat().st_size if self.metrics.exists() else 0
        if there > size:
            os.truncate(self.metrics, size)
        return there >= size

    def _start(self, config: Json, environment: Json, current: Callable[[Json], Json]) -> None:
        for partial in self.path.glob(".*.json.*"):
            partial.unlink()
        if not (self.path / "config.json").exists():
            write_whole(self.path / "environment.json", to_json(environment))
            write_whole(self.path / "config.json", to_json(config))
        elif differences := list(_differences(current(self.config), current(json.loads(to_json(config))))):
            raise ValueError(
                f"{self.path}: this folder holds another run; {'; '.join(differences[:5])}"
                f"{f'; and {len(differences) - 5} more' if len(differences) > 5 else ''}. Name another folder"
            )
        self.checkpoints.mkdir(exist_ok=True)


class InUseError(ValueError):
    """Another process owns the run directory."""


def _make_writable(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".probe.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OSError(f"{path}: cannot write the run here ({error.strerror})") from error


def _has_content(path: Path) -> bool:
    return any(not entry.name.startswith(".") for entry in path.iterdir() if entry.name != "environment.json")


def _differences(there: Any, asked: Any, where: str = "") -> Iterator[str]:
    if isinstance(there, dict) and isinstance(asked, dict):
        for name in [*there, *(name for name in asked if name not in there)]:
            yield from _differences(there.get(name), asked.get(name), f"{where}.{name}".lstrip("."))
    elif there != asked:
        yield f"{where}: {there!r} there, {asked!r} asked"
