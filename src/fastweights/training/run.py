"""A run as a value: everything that decides its numbers. A folder holds one, a record names one, --set changes one."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from fastweights.config import ConfigCodec, unknown
from fastweights.training.config import TrainingConfig
from fastweights.training.stopping import Stopping
from fastweights.training.task import TaskConfig


@dataclass(frozen=True)
class Run:
    """Train the model of a task until a rule says stop; two runs are equal if they give the same numbers."""

    task: TaskConfig
    training: TrainingConfig
    stopping: Stopping = Stopping()  # noqa: RUF009  a frozen value
    preset: str = field(default="", compare=False)
    """The name that the run started from."""

    @property
    def slug(self) -> str:
        """A readable name; runs that differ in rarer ways may share it."""
        named = self.task.slug or self.preset or type(self.task).__name__
        usual = TrainingConfig.__dataclass_fields__["seed"].default
        return named if self.training.seed == usual else f"{named}-seed{self.training.seed}"


@dataclass(frozen=True)
class RunCodec:
    """Runs as plain data and back, for the task configurations of every family."""

    codec: ConfigCodec

    def to_plain(self, run: Run) -> dict[str, Any]:
        """Plain JSON data that `from_plain` reads back."""
        plain: dict[str, Any] = self.codec.to_plain(run)
        return plain

    def from_plain(self, plain: Mapping[str, Any]) -> Run:
        """The run of plain data, as this version or an earlier one wrote it."""
        return self.codec.from_plain(Run, plain if "task" in plain else self._upgraded(plain))

    def task_type(self, name: str) -> type[TaskConfig]:
        """The configuration of the tasks of a family."""
        found: type[TaskConfig] = self.codec.registries[TaskConfig][name]
        return found

    def name(self, run: Run) -> str:
        """The name of a run's folder and record: readable, and different for any other run."""
        return f"{run.slug}-{self.codec.digest(run)}"

    def changed(self, run: Run, changes: Iterable[str]) -> Run:
        """The run after changes such as `training.steps=200`; fields of the task need no `task.` before them."""
        return self.codec.changed(run, (_with_path(change, run) for change in changes))

    def _upgraded(self, plain: Mapping[str, Any]) -> dict[str, Any]:
        """Plain data of an earlier version in today's shape: the family is the one whose fields it has."""
        configs: Mapping[str, type[TaskConfig]] = self.codec.registries[TaskConfig]
        for name, config in configs.items():
            if plain.keys() and plain.keys() <= {path.partition(".")[0] for path in config.moved}:
                upgraded: dict[str, Any] = {"task": {"name": name}, "training": {}, "stopping": {}}
                for path, value in config.implied.items():
                    _put(upgraded, path, value)
                for path, value in _leaves(plain, config.moved):
                    _put(upgraded, config.moved[path], value)
                return upgraded
        raise ValueError(f"not the configuration of a run; its fields are {', '.join(map(str, plain)) or 'none'}")


def _with_path(change: str, run: Run) -> str:
    """The change with the path of its field from the run on, however it was written."""
    path, equals, text = change.partition("=")
    if not equals:
        return change
    for old, new in run.task.moved.items():
        if path == old or path.startswith(f"{old}."):
            return f"{new}{path[len(old) :]}{equals}{text}"
    first = path.partition(".")[0]
    of_task, of_run = ([field.name for field in fields(value)] for value in (run.task, run))
    if first not in (*of_task, *of_run):
        earlier = (old.partition(".")[0] for old in run.task.moved)
        raise ValueError(f"--set: {unknown('field', first, dict.fromkeys([*of_task, *of_run, *earlier]))}")
    return f"task.{change}" if first in of_task else change


def _leaves(plain: Mapping[str, Any], paths: Iterable[str]) -> list[tuple[str, Any]]:
    """Each path with the value that plain data has there; unknown fields are a ValueError."""
    found, rest = [], dict(plain)
    for path in paths:
        first, _, second = path.partition(".")
        if first not in rest:
            continue
        if not second:
            found.append((path, rest.pop(first)))
        elif not isinstance(rest[first], Mapping):
            raise ValueError(f"{first}: expected a mapping of fields, got {rest[first]!r}")
        elif second in rest[first]:
            found.append((path, rest[first][second]))
            rest[first] = {name: value for name, value in rest[first].items() if name != second}
    if odd := [name for name, value in rest.items() if value]:
        raise ValueError(f"unknown fields: {', '.join(odd)}")
    return found


def _put(plain: dict[str, Any], path: str, value: Any) -> None:
    *folders, last = path.split(".")
    for name in folders:
        plain = plain.setdefault(name, {})
    plain[last] = value
