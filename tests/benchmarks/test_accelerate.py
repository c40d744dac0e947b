"""The measurement of accelerated models runs, and its table says what was measured."""

import sys

import pytest
import torch
from benchmarks.accelerate import (
    MODELS,
    RULES_OF_SEQUENCES,
    AccelerationMeasurement,
    make,
    rule_for_free,
    table,
    tokens,
)
from benchmarks.record import SpeedRecord

from fastweights.hf import accelerate


def one(seconds: float) -> dict[str, dict[str, float]]:
    return {"call": {"best": seconds, "median": seconds, "repetitions": 3}}


def test_a_call_is_compared_with_that_of_transformers_and_decoding_counts_per_token() -> None:
    times = {
        "prefill 1024: stock": one(0.5),
        "prefill 1024: accelerated": one(0.2),
        "prefill 1024: rule for free": one(0.1),
        "decoding: stock": one(0.16),
        "decoding: accelerated": one(0.128),
    }
    measured = {"threads": 2, "errors": {}, "refused": [], "times": times}
    record = SpeedRecord("full", "", "", {}, {"accelerate mamba2, 16 heads threads2": measured})
    assert table(record).rows == [
        ("mamba2, 16 heads", "2", "prefill 1024", "500", "200", "2.50 ×", "5.00 ×"),
        ("mamba2, 16 heads", "2", "decoding, per token", "10", "8", "1.25 ×", "–"),
    ]


@pytest.mark.parametrize("model", ["mamba2, 16 heads of 64, state 128", "kimi_linear, 8 heads of 128"])
def test_a_rule_for_free_leaves_the_rest_of_the_model_and_is_put_back(model: str) -> None:
    architecture = MODELS[model][0]
    small, ids = make(model), tokens(9)
    module = sys.modules[type(small).__module__]
    (name,) = RULES_OF_SEQUENCES & vars(module).keys()
    before = getattr(module, name)
    with torch.no_grad():
        expected = small(ids, use_cache=True).logits
        with rule_for_free(architecture):
            found = small(ids, use_cache=True).logits
    assert found.shape == expected.shape
    assert not torch.allclose(found, expected)
    assert getattr(module, name) is before
    assert not any(accelerate.status().values())


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_every_model_is_measured_both_ways(model: str) -> None:
    measured = AccelerationMeasurement(model, threads=1, seconds=0.01, lengths=(80,), trained=80).run()
    assert not measured["refused"]
    assert len(measured["times"]) == 7
    assert all(parts["call"]["best"] > 0 for parts in measured["times"].values())
