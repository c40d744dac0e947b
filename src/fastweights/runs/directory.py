"""One folder per run, with one owner at a time.

config.json        what the run is; giving another one for the same folder is refused
environment.json   where it started
metrics.jsonl      one line per event, the same however often the run is killed
checkpoints/       see checkpoint.py
result.json        how it ended
"""

import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from fastweights.files import write_whole

Json = dict[str, Any]


class RunDirectory:
    """The files of a run. A process that is not the owner (a helper under torchrun) reads and writes nothing."""

    def __init__(self, path: Path, owner: bool = True) -> None:
        self.path, self.owner = path, owner
        self.checkpoints = path / "checkpoints"
        self.metrics = path / "metrics.jsonl"

    @classmethod
    @contextmanager
    def claim(cls, path: Path, config: Json, environment: Json) -> "Iterator[RunDirectory]":
        """Own a new or an existing run directory for as long as the context lasts."""
        if path.exists() and not path.is_dir():
            raise ValueError(f"{path}: expected a folder for the run, this is a file")
        if path.is_dir() and not (path / "config.json").exists() and _has_content(path):
            raise ValueError(f"{path}: this folder holds other things than a run; name a new or an empty one")
        _make_writable(path)
        with _locked(path):
            directory = cls(path)
            directory._start(config, environment)
            yield directory

    @property
    def identity(self) -> str:
        """Changes with anything that decides the run's numbers; checkpoints carry it."""
        config = json.dumps(read_json(self.path / "config.json"), sort_keys=True)
        return hashlib.sha256(config.encode()).hexdigest()[:24]

    def refuse_foreign(self, state: Json, source: str) -> None:
        """A checkpoint of another run is an error, even where its tensors would fit."""
        if state.get("run", self.identity) != self.identity:
            raise ValueError(f"{source}: a checkpoint of another run than that of {self.path / 'config.json'}")

    @property
    def result(self) -> Json | None:
        """How the run ended, if it has."""
        return read_json(self.path / "result.json") if (self.path / "result.json").exists() else None

    def finish(self, result: Json) -> None:
        """Record how the run ended."""
        if self.owner:
            write_whole(self.path / "result.json", _to_text(result))

    def log(self, **values: Any) -> None:
        """Add a line to the metrics."""
        if self.owner:
            try:
                with self.metrics.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(values, allow_nan=False) + "\n")
            except OSError as error:
                raise OSError(
                    f"{self.metrics}: could not be written ({error.strerror}); the last checkpoint is untouched, and "
                    "the same command goes on from there"
                ) from error

    def settle_metrics(self) -> int:
        """Flush the metrics to the disk; how many bytes they are."""
        if not self.owner or not self.metrics.exists():
            return 0
        with self.metrics.open("rb") as file:
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size

    def rewind_metrics(self, size: int) -> bool:
        """Forget the lines that were written after a checkpoint; False if some from before it are missing."""
        if not self.owner:
            return True
        there = self.metrics.stat().st_size if self.metrics.exists() else 0
        if there > size:
            os.truncate(self.metrics, size)
        return there >= size

    def _start(self, config: Json, environment: Json) -> None:
        for partial in self.path.glob(".*.json.*"):
            partial.unlink()
        if not (self.path / "config.json").exists():
            write_whole(self.path / "environment.json", _to_text(environment))
            write_whole(self.path / "config.json", _to_text(config))
        elif differences := list(_differences(read_json(self.path / "config.json"), json.loads(_to_text(config)))):
            raise ValueError(
                f"{self.path}: this folder holds another run; {'; '.join(differences[:5])}"
                f"{f'; and {len(differences) - 5} more' if len(differences) > 5 else ''}. Name another folder"
            )
        self.checkpoints.mkdir(exist_ok=True)


def read_json(path: Path) -> Json:
    """One JSON object from a file of a run."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: corrupted, not valid JSON ({type(error).__name__})") from error
    except FileNotFoundError:
        raise ValueError(f"{path.parent}: this is not the folder of a run, there is no {path.name}") from None
    if not isinstance(value, dict):
        raise ValueError(f"{path}: corrupted, expected an object")
    return value


def _make_writable(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
        probe = path / f".probe.{os.getpid()}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise OSError(f"{path}: cannot write the run here ({error.strerror})") from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    import fcntl  # not on every system, and only runs need it

    # The system ends the lock with the process, however that ends: there are no stale ones.
    with (path / ".lock").open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            file.seek(0)
            raise ValueError(f"{path}: in use by another process ({file.read(20).strip() or 'unknown'})") from None
        # The number is only for the message above.
        with suppress(OSError):
            file.truncate(0)
            file.write(f"{os.getpid()}\n")
            file.flush()
        yield


def _has_content(path: Path) -> bool:
    return any(not entry.name.startswith(".") for entry in path.iterdir() if entry.name != "environment.json")


def _to_text(value: Json) -> str:
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def _differences(there: Any, asked: Any, where: str = "") -> Iterator[str]:
    if isinstance(there, dict) and isinstance(asked, dict):
        for name in [*there, *(name for name in asked if name not in there)]:
            yield from _differences(there.get(name), asked.get(name), f"{where}.{name}".lstrip("."))
    elif there != asked:
        yield f"{where}: {there!r} there, {asked!r} asked"
