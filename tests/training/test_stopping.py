"""When a run ends before its last step."""

import math

import pytest

from fastweights.training.progress import TrainingProgress
from fastweights.training.stopping import Stopping

PUBLISHED = Stopping(target=0.001, patience=11)
"""As the synthetic experiments of the paper stop, after at most 100,000 steps."""


def curve(*losses: float | None) -> TrainingProgress:
    """The progress after evaluations with these losses, one every 100 steps; None for one that was not finite."""
    progress = TrainingProgress()
    for loss in losses:
        progress.step += 100
        progress.note_evaluation(loss)
    return progress


@pytest.mark.parametrize(
    ("progress", "reason"),
    [
        (TrainingProgress(), None),
        (curve(0.5), None),
        (curve(0.5, 0.001), "solved"),
        (curve(0.5, 0.00101), None),
        (curve(*[0.5] * 11), None),
        # The first evaluation is a new minimum; eleven more are not.
        (curve(*[0.5] * 12), "patience"),
        (curve(*[0.5] * 11, 0.4), None),
        (curve(*[0.5] * 11, 0.4, *[0.4] * 10), None),
        (curve(*[0.5] * 11, 0.4, *[0.4] * 11), "patience"),
        (curve(*[None] * 10), None),
        # Not-a-number is never a minimum, not even the first.
        (curve(*[None] * 11), "not-finite"),
        (curve(0.5, *[None] * 11), "not-finite"),
        (curve(*[None] * 10, 0.5, *[0.6] * 10), None),
        (curve(*[0.5 - i / 1e4 for i in range(1000)]), "limit"),
    ],
)
def test_when_a_run_ends(progress: TrainingProgress, reason: str | None) -> None:
    assert PUBLISHED.reason(progress, 100_000) == reason


def test_without_rules_a_run_ends_at_its_last_step() -> None:
    progress = curve(0.0, *[None] * 98)
    assert Stopping().reason(progress, 10_000) is None
    progress.step = 10_000
    assert Stopping().reason(progress, 10_000) == "limit"


def test_each_rule_stands_alone() -> None:
    assert Stopping(target=0.1).reason(curve(*[0.5] * 50), 100_000) is None
    assert Stopping(target=0.1).reason(curve(0.5, 0.1), 100_000) == "solved"
    assert Stopping(patience=1).reason(curve(0.5, 0.5), 100_000) == "patience"


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("target", -0.1, "target: expected a finite number of at least 0, got -0.1"),
        ("target", math.nan, "target: expected a finite number"),
        ("target", math.inf, "target: expected a finite number"),
        ("patience", 0, "patience: expected at least 1 evaluation, got 0"),
    ],
)
def test_rules_that_never_hold_are_refused(field: str, value: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Stopping(**{field: value})
