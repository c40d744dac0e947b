"""What a sweep hands to its executor, whichever that is."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from fastweights.experiments.carry_out import job_of
from fastweights.experiments.families import codec
from fastweights.experiments.retrieval import figure2, figure3
from fastweights.files import write_whole
from fastweights.runs.display import SweepDisplay
from fastweights.runs.record import record_path
from fastweights.runs.sweep.plan import Job, sweep


class Listing:
    """An executor that only notes what it was given."""

    def __init__(self, failures: Mapping[str, str] | None = None) -> None:
        self.failures = failures or {}
        self.calls: list[list[str]] = []

    def __call__(self, jobs: Sequence[Job], results: Path, display: SweepDisplay) -> Mapping[str, str]:
        self.calls.append([job.name for job in jobs])
        self.display = display
        return self.failures


JOBS = [Job(name, name, "{}", cost) for name, cost in (("short", 1.0), ("long", 9.0), ("middle", 3.0))]


def test_the_longest_job_comes_first_and_all_are_counted(tmp_path: Path) -> None:
    executor = Listing()
    sweep(JOBS, tmp_path, executor, done=4)
    assert executor.calls == [["long", "middle", "short"]]
    assert (executor.display.total, executor.display.done, executor.display.work) == (7, 4, 13.0)


def test_without_jobs_nothing_is_started(tmp_path: Path) -> None:
    executor = Listing()
    sweep([], tmp_path, executor, done=4)
    assert executor.calls == []


def test_jobs_that_failed_are_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="2 of 3 runs failed: long: ValueError: x; short: died"):
        sweep(JOBS, tmp_path, Listing({"long": "ValueError: x", "short": "died"}))


def test_a_message_that_ended_many_jobs_is_said_once(tmp_path: Path) -> None:
    failures = {**dict.fromkeys(("a", "b", "c", "d"), "no such folder"), "e": "died", "f": "died"}
    jobs = [Job(name, name, "{}", 1.0) for name in failures]
    with pytest.raises(ValueError, match=r"^6 of 6 runs failed: a, b and 2 more: no such folder; e, f: died$"):
        sweep(jobs, tmp_path, Listing(failures))


def test_a_results_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    for name in ("records", "runs"):
        results = tmp_path / f"with {name}"
        write_whole(results / name, "")
        with pytest.raises(ValueError, match=f"{results / name} is a file, a folder is needed"):
            sweep(JOBS, results, Listing())


def test_a_job_is_done_when_its_record_exists(tmp_path: Path) -> None:
    assert not JOBS[0].is_done(tmp_path)
    write_whole(record_path(tmp_path, "short"), "{}")
    assert JOBS[0].is_done(tmp_path)


def test_long_runs_of_the_figures_start_first(tmp_path: Path) -> None:
    runs = figure2.runs() + figure3.runs()
    executor, by_name = Listing(), {codec().name(run): run for run in runs}
    sweep(map(job_of, runs), tmp_path, executor)
    by_cost = [by_name[name].task for name in executor.calls[0]]
    assert {task.attention.update_rule.__class__.__name__ for task in by_cost[:6]} == {"FastWeightMemoryRule"}
    capacity = [task for task in by_cost if task.setting == "capacity"]
    assert capacity[0].num_keys == 600
    assert capacity[-1].num_keys == 20
