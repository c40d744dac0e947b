"""How a model is trained, as values: what cannot be trained is refused."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from tiny_run import POLICY, TASK, TRAINING

from fastweights.training.config import CheckpointPolicy
from fastweights.training.schedule import Constant, InverseSquareRoot, WarmupCosine


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"steps": -1}, "steps: expected at least 0, got -1"),
        ({"batch_size": 0}, "batch_size: expected at least 1, got 0"),
        ({"log_every": 0}, "log_every: expected at least 1, got 0"),
        ({"accumulation": 3}, "accumulation: expected a divisor of batch_size 4, got 3"),
        ({"learning_rate": math.nan}, "learning_rate: expected a positive finite number"),
        ({"clip_norm": 0.0}, "clip_norm: expected a positive finite number"),
        ({"clip_norm": math.inf}, "clip_norm: expected a positive finite number"),
        ({"warmup_steps": -1}, "warmup_steps"),
        ({"seed": -1}, "seed: expected at least 0, got -1"),
        ({"schedule": "cosin"}, r"schedule: unknown name 'cosin' \(did you mean 'cosine'\?\); possible: cosine, const"),
    ],
)
def test_impossible_configurations_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(TRAINING, **change)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"shuffle": True}, "shuffle: with carry_state"),
        ({"segment_length": 0}, "segment_length: expected at least 1, got 0"),
    ],
)
def test_impossible_tasks_are_refused(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replace(TASK, **change)


@pytest.mark.parametrize("field", ["save_every_steps", "save_every_seconds", "keep_checkpoints"])
@pytest.mark.parametrize("value", [0, -1])
def test_checkpoints_that_are_never_written_are_refused(field: str, value: int) -> None:
    with pytest.raises(ValueError, match=f"{field}: expected a positive number, got {value}"):
        replace(POLICY, **{field: value})


def test_what_may_be_absent() -> None:
    assert replace(TRAINING, clip_norm=None, log_every=None).clip_norm is None
    assert CheckpointPolicy().when_not_finite == "stop"


@pytest.mark.parametrize(
    ("name", "schedule"), [("cosine", WarmupCosine), ("constant", Constant), ("inverse-square-root", InverseSquareRoot)]
)
def test_the_schedule_goes_by_its_name(name: str, schedule: type) -> None:
    assert replace(TRAINING, schedule=name).rates == schedule(1e-2, 3, 30)


def test_only_bfloat16_computes_in_it() -> None:
    product = []
    for precision in ("float32", "bfloat16"):
        with replace(TRAINING, precision=precision).autocast(torch.device("cpu")):
            product.append(torch.ones(2, 2) @ torch.ones(2, 2))
    assert [x.dtype for x in product] == [torch.float32, torch.bfloat16]
