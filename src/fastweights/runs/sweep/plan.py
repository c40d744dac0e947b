"""The jobs of a sweep as plain data, and the interface of whatever runs them: processes here, or machines elsewhere.

All that a sweep knows is on disk: a run is done when its record exists, and half done when its folder holds a
checkpoint. So the same command resumes a killed sweep, and two sweeps on one results folder share the work.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

from fastweights.runs.display import SweepDisplay
from fastweights.runs.record import check_results_folder, record_path


@dataclass(frozen=True)
class Job:
    """One run of a sweep: what a worker is sent, and what people are shown."""

    name: str
    """The name of the run's folder and record."""
    slug: str
    request: str
    """The run as JSON."""
    cost: float
    """About how long it takes, in no particular unit."""

    def is_done(self, results: Path) -> bool:
        """True if the run has its record."""
        return record_path(results, self.name).exists()


@runtime_checkable
class Executor(Protocol):
    """Carries out jobs and leaves their records in a results folder."""

    def __call__(self, jobs: Sequence[Job], results: Path, display: SweepDisplay) -> Mapping[str, str]:
        """Carry out the jobs; returns the errors of those that failed, by slug."""


def sweep(jobs: Iterable[Job], results: Path, executor: Executor, *, done: int = 0) -> None:
    """Carry out the jobs, the longest first; `done` counts runs that have their record already."""
    check_results_folder(results)
    # No long run may start when the others are nearly done, to be waited for alone.
    waiting = sorted(jobs, key=lambda job: job.cost, reverse=True)
    if not waiting:
        return
    display = SweepDisplay(done + len(waiting), done, sum(job.cost for job in waiting))
    with display.shown():
        failures = executor(waiting, results, display)
    if failures:
        raise ValueError(f"{len(failures)} of {len(waiting)} runs failed: {told(failures)}")


def told(failures: Mapping[str, str]) -> str:
    """Each message once, with the runs that it ended."""
    slugs: dict[str, list[str]] = {}
    for slug, message in failures.items():
        slugs.setdefault(message, []).append(slug)
    return "; ".join(f"{_named(found)}: {message}" for message, found in slugs.items())


def _named(slugs: Sequence[str]) -> str:
    """All of a few names, or the first two of many."""
    return ", ".join(slugs) if len(slugs) <= 3 else f"{slugs[0]}, {slugs[1]} and {len(slugs) - 2} more"
