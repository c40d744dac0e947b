"""Curves for TensorBoard."""

from pathlib import Path

import pytest

from fastweights.training import tensorboard
from fastweights.training.tensorboard import Scalars


def test_without_tensorboard_there_are_no_curves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tensorboard, "find_spec", lambda name: None)
    assert Scalars.open(tmp_path, 0) is None
    assert list(tmp_path.iterdir()) == []


def test_a_resumed_run_hides_what_it_repeats(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    for start, end, loss in ((0, 5, 1.0), (3, 6, 2.0)):
        scalars = Scalars.open(tmp_path, start)
        assert scalars is not None
        for step in range(start + 1, end + 1):
            scalars.add(step, {"loss": loss, "gradient_norm": None})
        scalars.close()
    found = events.EventAccumulator(str(tmp_path)).Reload().Scalars("loss")
    assert [(point.step, point.value) for point in found] == [
        (1, 1.0),
        (2, 1.0),
        (3, 1.0),
        (4, 2.0),
        (5, 2.0),
        (6, 2.0),
    ]
