"""What the records hold of the trained memories: medians over seeds, by memory and kind of write."""

import math
from dataclasses import dataclass, field
from statistics import median
from typing import Any, Literal

from fastweights.experiments.contrast.config import ContrastConfig
from fastweights.experiments.contrast.presets import preset
from fastweights.experiments.growth.curves import Curves, curves
from fastweights.experiments.memories import MEMORIES
from fastweights.experiments.records import Records

Kind = Literal["new", "repeated"]


@dataclass(frozen=True)
class TracedMemories:
    """The results of every memory, one for each seed, and the random stream of the same memories."""

    results: dict[str, list[dict[str, Any]]]
    streams: Curves = field(default_factory=lambda: Curves({}))

    def write(self, memory: str, kind: Kind, quantity: str) -> float:
        """The median over writes of a quantity; not a number if the memory has none or was not run."""
        found = [result["writes"][kind].get(quantity) for result in self.results.get(memory, [])]
        return _median([None if one is None else one["quartiles"][1] for one in found])

    def by_step(self, memory: str, quantity: str) -> list[tuple[int, float]]:
        """λ or B against the step, in sequences much longer than those of the training."""
        columns = [result["by_step"] for result in self.results.get(memory, [])]
        rows = zip(*(column[quantity] for column in columns), strict=True)
        return (
            [(step, _median(list(row))) for step, row in zip(columns[0]["step"], rows, strict=True)] if columns else []
        )

    def by_length(self, memory: str) -> list[tuple[int, float]]:
        """The loss against the length of the sequence."""
        columns = [result["by_length"] for result in self.results.get(memory, [])]
        lengths = list(columns[0]) if columns else []
        return [(int(length), _median([column[length] for column in columns])) for length in lengths]

    def loss_at(self, memory: str, length: int) -> float:
        """The loss at one length."""
        return dict(self.by_length(memory)).get(length, math.nan)

    def crosstalk(self, memory: str) -> float:
        """The mean cosine of the keys of different symbols."""
        return _median([result["crosstalk"] for result in self.results.get(memory, [])])

    def steps(self, memory: str) -> list[int]:
        """How long each seed was trained."""
        return sorted(result["steps"] for result in self.results.get(memory, []))


def outcomes(records: Records) -> TracedMemories:
    """What the records say about the memories that are compared."""
    names = {preset("contrast", memory).task: memory for memory in MEMORIES}
    found: dict[str, list[dict[str, Any]]] = {}
    for run, record in records.items():
        if isinstance(run.task, ContrastConfig) and run.task in names and "writes" in record.result:
            found.setdefault(names[run.task], []).append(record.result)
    return TracedMemories({memory: found[memory] for memory in MEMORIES if memory in found}, curves(records))


def _median(values: list[float | None]) -> float:
    known = [value for value in values if value is not None]
    return median(known) if known and len(known) == len(values) else math.nan
