"""The measurement of accelerated models runs, and its table says what was measured."""

import pytest
from benchmarks.accelerate import MODELS, AccelerationMeasurement, table
from benchmarks.record import SpeedRecord


def one(seconds: float) -> dict[str, dict[str, float]]:
    return {"call": {"best": seconds, "median": seconds, "repetitions": 3}}


def test_a_call_is_compared_with_that_of_transformers_and_decoding_counts_per_token() -> None:
    times = {
        "prefill 1024: stock": one(0.5),
        "prefill 1024: accelerated": one(0.2),
        "decoding: stock": one(0.16),
        "decoding: accelerated": one(0.128),
    }
    measured = {"threads": 2, "errors": {}, "refused": [], "times": times}
    record = SpeedRecord("full", "", "", {}, {"accelerate mamba2, 16 heads threads2": measured})
    assert table(record).rows == [
        ("mamba2, 16 heads", "2", "prefill 1024", "500", "200", "2.50 ×"),
        ("mamba2, 16 heads", "2", "decoding, per token", "10", "8", "1.25 ×"),
    ]


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_every_model_is_measured_both_ways(model: str) -> None:
    measured = AccelerationMeasurement(model, threads=1, seconds=0.01, lengths=(80,), trained=80).run()
    assert not measured["refused"]
    assert len(measured["times"]) == 6
    assert all(parts["call"]["best"] > 0 for parts in measured["times"].values())
