"""The recorded streams: a quantity by memory, precision of the state and step, the median over seeds."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import StatisticsError, linear_regression, median

from fastweights.experiments.growth.config import GrowthConfig, Precision
from fastweights.experiments.growth.positions import Positions, positions
from fastweights.experiments.growth.presets import preset
from fastweights.experiments.memories import MEMORIES
from fastweights.experiments.records import Records


@dataclass(frozen=True)
class Curves:
    """Streams by memory and precision, columns of each by name, and language models by position."""

    streams: dict[tuple[str, Precision], dict[str, list[float]]]
    language_models: tuple[Positions, ...] = ()

    def steps(self, memory: str, state: Precision = "float32") -> list[int]:
        """Where a stream was measured; nothing if there is no record of it."""
        return [round(step) for step in self.streams.get((memory, state), {}).get("step", [])]

    def column(self, memory: str, name: str, state: Precision = "float32") -> list[float]:
        """A quantity at every measured step; nothing if the memory has no such quantity."""
        return self.streams.get((memory, state), {}).get(name, [])

    def at(self, memory: str, name: str, step: int, state: Precision = "float32") -> float:
        """A quantity after so many steps; not a number if it was not measured or not finite."""
        found = dict(zip(self.steps(memory, state), self.column(memory, name, state), strict=False))
        return found.get(step, math.nan)

    def exponent(self, memory: str, name: str, first: int = 1000) -> float:
        """p of quantity ∝ step^p, by least squares over log-log pairs from `first` on."""
        pairs = zip(self.steps(memory), self.column(memory, name), strict=False)
        return slope([(math.log(t), math.log(x)) for t, x in pairs if t >= first and x > 0])

    def with_normaliser(self) -> list[str]:
        """The memories that accumulate z."""
        return [memory for memory, state in self.streams if state == "float32" and self.column(memory, "normaliser")]


def curves(records: Records) -> Curves:
    """What the records hold of the streams that are compared."""
    names = {(preset("growth", memory, state=state).task): (memory, state) for memory in MEMORIES for state in STATES}
    found: dict[tuple[str, Precision], list[dict[str, list[float | None]]]] = {}
    for run, record in records.items():
        if isinstance(run.task, GrowthConfig) and run.task in names:
            found.setdefault(names[run.task], []).append(record.result["stream"])
    ordered = [name for name in names.values() if name in found]
    return Curves({name: _medians(found[name]) for name in ordered}, positions(records))


STATES: tuple[Precision, ...] = ("float32", "bfloat16")


def slope(points: Sequence[tuple[float, float]]) -> float:
    """The slope of the straight line through some points; not a number if there are fewer than two."""
    try:
        return linear_regression([x for x, _ in points], [y for _, y in points]).slope
    except StatisticsError:
        return math.nan


def _medians(streams: list[dict[str, list[float | None]]]) -> dict[str, list[float]]:
    """The median over seeds; not a number where one of them has none."""
    return {
        name: [math.nan if None in row else median(row) for row in zip(*(s[name] for s in streams), strict=True)]
        for name in streams[0]
        if all(name in stream for stream in streams)
    }
