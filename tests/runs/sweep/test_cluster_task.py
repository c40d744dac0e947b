"""What a worker of a cluster does with a run, without a cluster: `perform` adds the scheduler to this."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from fastweights.runs.sweep import cluster_task
from fastweights.runs.sweep.cluster_task import differences, run_apart, versions
from fastweights.runs.sweep.local import close


@pytest.fixture(autouse=True)
def _workers_find_odd_jobs(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parent))
    yield
    process = getattr(cluster_task._own, "process", None)
    if process is not None:
        close(process)
        del cluster_task._own.process


def apart(
    request: Mapping[str, Any],
    is_wanted: Callable[[], bool] = lambda: True,
    tell: Callable[[Mapping[str, Any]], None] = lambda event: None,
) -> dict[str, Any]:
    return run_apart("odd_jobs:serve", "odd job", json.dumps(request), "run", is_wanted, tell)


def test_one_process_serves_run_after_run_and_tells_how_they_go() -> None:
    events: list[Mapping[str, Any]] = []
    record = {"do": "write", "record": "the text of a record"}
    assert apart(record, tell=events.append) == {"record": "the text of a record"}
    process = cluster_task._own.process
    assert apart({"do": "raise"}) == {"failed": "ValueError: one clear line"}
    assert apart(record) == {"record": "the text of a record"}
    assert cluster_task._own.process is process
    assert [(event["step"], event["loss"]) for event in events] == [(1, 0.5)]


def test_a_process_that_dies_is_told_and_replaced() -> None:
    assert apart({"do": "die"}) == {"died": 9}
    assert apart({"do": "raise"}) == {"failed": "ValueError: one clear line"}


def test_a_run_that_nobody_wants_any_more_is_stopped() -> None:
    wanted = threading.Event()
    wanted.set()
    outcome = apart({"do": "wait for nobody"}, wanted.is_set, lambda event: wanted.clear())
    assert outcome == {"died": 0}


def test_versions_that_differ_are_named() -> None:
    here = versions()
    assert set(here) == {"fastweights", "torch", "python"}
    assert differences(here, here) == ""
    there = here | {"torch": "2.0.1"}
    assert differences(here, there) == f"torch is 2.0.1 there and {here['torch']} here"
