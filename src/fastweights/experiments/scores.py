"""Accuracies of runs that answer at marked steps, gathered from records: by what they are called, over seeds."""

import statistics
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from fastweights.experiments.marked_steps import Accuracies
from fastweights.experiments.model_scores import over_seeds
from fastweights.experiments.records import Records
from fastweights.training.run import Run

Key = tuple[str, ...]
"""The name of a run in a table, such as a problem and a model."""


@dataclass(frozen=True)
class AccuracyScores:
    """The accuracies of runs by key, one for each seed that has a record."""

    runs: Mapping[Key, tuple[Accuracies, ...]]

    def of(self, key: Key, test: str, group: str = "all") -> tuple[float, ...]:
        """The share of right answers by seed; empty if there is no run, or no question of this group."""
        return tuple(run[test][group] for run in self.runs.get(key, ()) if run.get(test, {}).get(group) is not None)

    def mean(self, key: Key, test: str, group: str = "all") -> float | None:
        """The mean over seeds; None if there is no run."""
        values = self.of(key, test, group)
        return statistics.fmean(values) if values else None

    def __bool__(self) -> bool:
        return bool(self.runs)


def found(records: Records, wanted: Iterable[tuple[Key, Run]]) -> AccuracyScores:
    """The accuracies of those of the runs that have a record."""
    runs: dict[Key, tuple[Accuracies, ...]] = {}
    for key, run in wanted:
        if run in records:
            runs[key] = (*runs.get(key, ()), records[run].result["accuracies"])
    return AccuracyScores(runs)


def seeds_missing(scores: AccuracyScores, keys: Iterable[Key], wanted: int = 3) -> str:
    """A remark for evidence that rests on fewer seeds than it should; empty if all are there."""
    fewest = min(len(scores.runs.get(key, ())) for key in keys)
    return "" if fewest >= wanted else f" ({fewest} of {wanted} seeds so far)"


def percent(values: tuple[float, ...]) -> str:
    """The mean in per cent, and its standard deviation if there are several seeds."""
    return over_seeds([100 * value for value in values])
