"""The counters of a run, and how fast it goes."""

import json
from typing import Any

import pytest

from fastweights.runs.checkpoint import CheckpointError
from fastweights.training import progress as module
from fastweights.training.progress import Stopwatch, TrainingProgress

PROGRESS = TrainingProgress(
    step=7,
    recent_losses=[0.1, 1 / 3],
    last_loss=1 / 3,
    evaluated_step=6,
    valid_loss=0.7,
    best_step=4,
    best_loss=0.1 + 0.2,
    evaluations_since_best=2,
    seconds=1.5,
    core_seconds=1.25,
    metrics_bytes=99,
)


def test_counters_survive_a_checkpoint_to_the_last_bit() -> None:
    plain = json.loads(json.dumps(PROGRESS.to_plain()))
    assert TrainingProgress.from_plain({**plain, "run": "0123"}, "source") == PROGRESS


def test_a_checkpoint_of_version_0_1_is_read() -> None:
    plain = PROGRESS.to_plain()
    del plain["evaluations_since_best"], plain["core_seconds"]
    progress = TrainingProgress.from_plain(plain, "source")
    # What was not counted apart was the time by the clock.
    assert (progress.evaluations_since_best, progress.core_seconds) == (0, 1.5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"step": None}, "source: state.json is not what a run writes .step: expected int, got None"),
        ({"recent_losses": [1, "x"]}, r"recent_losses\[1\]: expected float, got 'x'"),
        ({"best_loss": True}, "best_loss"),
    ],
)
def test_counters_that_are_none_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(CheckpointError, match=message):
        TrainingProgress.from_plain(PROGRESS.to_plain() | change, "source")


def test_a_counter_that_is_missing_is_named() -> None:
    plain = PROGRESS.to_plain()
    del plain["seconds"], plain["best_step"]
    with pytest.raises(CheckpointError, match=r"source: state\.json lacks best_step, seconds"):
        TrainingProgress.from_plain(plain, "source")


def test_recent_losses_are_those_since_they_were_last_asked_for() -> None:
    progress = TrainingProgress(skipped_in_a_row=3)
    assert progress.mean_recent_loss() is None
    for loss in (1.0, 2.0):
        progress.note_loss(loss)
    assert (progress.last_loss, progress.skipped_in_a_row) == (2.0, 0)
    assert progress.mean_recent_loss() == 1.5
    assert progress.mean_recent_loss() is None


def test_only_a_lower_loss_is_a_new_best() -> None:
    progress, found = TrainingProgress(), []
    for step, loss in enumerate([None, 2.0, 3.0, 2.0, None, 1.0], start=1):
        progress.step = step
        found.append((progress.note_evaluation(loss), progress.best_step, progress.evaluations_since_best))
    assert found == [(False, None, 1), (True, 2, 0), (False, 2, 1), (False, 2, 2), (False, 2, 3), (True, 6, 0)]
    assert (progress.best_loss, progress.valid_loss, progress.evaluated_step) == (1.0, 1.0, 6)


def test_speed_is_that_of_the_last_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    watch = Stopwatch(window=2)
    assert (watch.units_per_second(), watch.steps_per_second()) == (0.0, 0.0)
    watch.restart()
    found = []
    for seconds, units in ((1.0, 10), (1.0, 10), (0.5, 20), (0.5, 20)):
        now[0] += seconds
        watch.lap(units)
        found.append((watch.steps_per_second(), watch.units_per_second()))
    assert found == [(1.0, 10.0), (1.0, 10.0), (2 / 1.5, 20.0), (2.0, 40.0)]
    now[0] += 100  # an evaluation
    watch.restart()
    now[0] += 0.25
    watch.lap(10)
    assert (watch.steps_per_second(), watch.units_per_second()) == (4.0, 40.0)
