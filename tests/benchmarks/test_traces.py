"""What recording costs: measured for real in small, and told as a share of a backward pass."""

import pytest
from benchmarks.record import SpeedRecord
from benchmarks.traces import TraceMeasurement, table, timed

from fastweights import FastWeightAttention


@pytest.mark.usefixtures("one_thread")
def test_recording_is_timed_beside_the_passes_of_the_layer(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, size in {"BATCH": 1, "STEPS": 4, "MODEL_DIM": 8}.items():
        monkeypatch.setattr(f"benchmarks.traces.{name}", size)
    layer = FastWeightAttention(8, 2)
    found = timed(layer)()
    assert set(found) == {"backward", "forward", "recorded"}
    assert min(found.values()) > 0
    assert layer.observer is None


def test_what_recording_adds_is_a_share_of_the_backward_pass() -> None:
    times = {what: {"best": best} for what, best in {"forward": 0.01, "backward": 0.04, "recorded": 0.03}.items()}
    record = SpeedRecord("full", "", "", {}, {TraceMeasurement.name: {"times": {"delta, ELU+1": times}}})
    assert table(record).rows == [("delta, ELU+1", "10", "40", "20", "50 %")]
