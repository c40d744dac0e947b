"""A retrieval run as a value: JSON and back, a digest of everything that counts, errors that say what is possible."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fastweights.experiments.families import codec
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED, AS_WRITTEN
from fastweights.experiments.retrieval.names import MODELS, RULES
from fastweights.experiments.retrieval.presets import preset
from fastweights.training.run import Run

PRESETS = [
    preset(setting, model, rule, 40, protocol=protocol)
    for setting in ("capacity", "overwriting")
    for model in MODELS
    for rule in RULES
    for protocol in (AS_WRITTEN, AS_PUBLISHED)
]
CHANGES = {
    "task.setting": "overwriting",
    "task.num_keys": 41,
    "task.attention.feature_map": {"name": "dpfp", "nu": 2},
    "task.attention.update_rule": "sum",
    "task.attention.normalisation": "l2",
    "task.attention.attention_normalisation": True,
    "task.attention.epsilon": 1e-5,
    "task.attention.clamp_first_write": True,
    "task.key_dim": 32,
    "task.protocol": "published",
    "training.steps": 10,
    "training.batch_size": 16,
    "training.learning_rate": 2e-3,
    "training.schedule": "cosine",
    "training.warmup_steps": 7,
    "training.clip_norm": 1.0,
    "training.beta2": 0.98,
    "training.accumulation": 2,
    "training.precision": "bfloat16",
    "training.log_every": 10,
    "training.evaluate_every": 50,
    "training.seed": 2,
    "stopping.target": 0.01,
    "stopping.patience": 5,
}
EARLIER = {
    "setting": "overwriting",
    "num_keys": 40,
    "attention": {
        "name": "fast-weights",
        "feature_map": {"name": "dpfp", "nu": 2},
        "update_rule": {"name": "sum"},
        "normalisation": {"name": "none"},
        "attention_normalisation": True,
        "epsilon": 1e-06,
        "clamp_first_write": False,
    },
    "key_dim": 64,
    "learning_rate": 0.001,
    "batch_size": 32,
    "seed": 3,
    "evaluate_every": 100,
    "patience": 11,
    "stop_loss": 0.001,
    "max_steps": 100000,
    "protocol": {"sequences": 20, "length": "S", "max_queries": 200, "average": "chunks", "redraw": True},
}
"""A configuration as version 0.1 wrote it."""


def digest(run: Run) -> str:
    return codec().name(run).rpartition("-")[2]


@pytest.mark.parametrize("run", PRESETS, ids=lambda run: run.slug)
def test_json_and_back(run: Run) -> None:
    plain = json.loads(json.dumps(codec().to_plain(run), allow_nan=False))
    again = codec().from_plain(plain)
    assert again == run
    assert hash(again) == hash(run)
    assert codec().name(again) == codec().name(run)
    assert again.preset == run.preset


def test_different_runs_have_different_names() -> None:
    runs = set(PRESETS)
    assert len({digest(run) for run in runs}) == len(runs)
    assert len({run.slug for run in runs}) == len(runs)


def leaves(plain: dict[str, Any], where: str = "") -> Iterator[str]:
    """The paths of all fields; those of the read one by one, those of its parts and of the protocol as a whole."""
    for name, value in plain.items():
        path = f"{where}{name}"
        if path in ("task", "training", "stopping", "task.attention"):
            yield from leaves(value, f"{path}.")
        elif name not in ("name", "preset", "sharding"):  # which change no number
            yield path


def test_every_field_counts_in_the_digest() -> None:
    run = preset("capacity", "dpfp1", "delta", 40)
    assert CHANGES.keys() == set(leaves(codec().to_plain(run)))
    changed = [codec().changed(run, [f"{path}={json.dumps(value)}"]) for path, value in CHANGES.items()]
    assert len({digest(other) for other in changed} | {digest(run)}) == len(CHANGES) + 1


def test_the_digest_of_a_run_stays_the_same() -> None:
    # Folders and records are named by it: a change makes every run of the past a stranger to its folder.
    assert digest(preset("capacity", "dpfp1", "sum", 100)) == "29525f1c5f0a"


def test_a_configuration_of_version_0_1_is_the_same_run() -> None:
    assert codec().from_plain(EARLIER) == preset("overwriting", "dpfp2", "sum", 40, 3, AS_PUBLISHED)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"nunm_keys": 3}, "unknown field 'nunm_keys'.*did you mean 'num_keys'.*possible: setting, num_keys"),
        ({"num_keys": 1}, "num_keys: must be an integer of at least 2, got 1"),
        ({"num_keys": "20"}, "num_keys: expected int, got '20'"),
        ({"setting": "other"}, "unknown value 'other'; possible: capacity, overwriting"),
        ({"attention": {"name": "linear"}}, "attention: unknown name 'linear'; possible: softmax, fast-weights"),
        ({"attention": {"name": "fast-weights", "feature_map": "dpfpp"}}, "did you mean 'dpfp'"),
        (
            {"attention": {"name": "fast-weights", "feature_map": {"name": "dpfp", "nu": 0}}},
            "nu must be an integer of at least 1, got 0",
        ),
        (
            {"attention": {"name": "fast-weights", "feature_map": {"name": "dpfp", "nu": 200}}},
            "nu must be in 1 ... 2",
        ),
        ({"protocol": {"length": "3S"}}, "protocol.length: unknown value '3S'.*; possible: 2S, S"),
        ({"key_dim": 0}, "key_dim: must be an integer of at least 1, got 0"),
        ({"name": "retreival"}, "unknown name 'retreival' .did you mean 'retrieval'.*; possible: retrieval"),
    ],
)
def test_bad_fields_are_named_with_what_is_possible(change: dict[str, object], message: str) -> None:
    plain = codec().to_plain(preset("capacity", "dpfp1", "sum", 20))
    with pytest.raises(ValueError, match=message):
        codec().from_plain(plain | {"task": plain["task"] | change})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"batch_size": 0}, "batch_size: expected at least 1, got 0"),
        ({"learning_rate": float("nan")}, "learning_rate: expected a positive finite number"),
        ({"seed": -1}, "seed: expected at least 0, got -1"),
        ({"stpes": 3}, "training: unknown field 'stpes' .did you mean 'steps'"),
    ],
)
def test_bad_training_is_named_with_what_is_possible(change: dict[str, object], message: str) -> None:
    plain = codec().to_plain(preset("capacity", "dpfp1", "sum", 20))
    with pytest.raises(ValueError, match=message):
        codec().from_plain(plain | {"training": plain["training"] | change})


@pytest.mark.parametrize("missing", ["setting", "num_keys", "attention"])
def test_a_missing_field_is_named(missing: str) -> None:
    plain = codec().to_plain(preset("capacity", "dpfp1", "sum", 20))
    del plain["task"][missing]
    with pytest.raises(ValueError, match=missing):
        codec().from_plain(plain)
    earlier = {name: value for name, value in EARLIER.items() if name != missing}
    with pytest.raises(ValueError, match=missing):
        codec().from_plain(earlier)


def test_long_runs_cost_more() -> None:
    runs = [
        preset("overwriting", "dpfp1", "schlag2021", 20),
        *(preset("capacity", "favor512", "sum", size) for size in (140, 20)),
        preset("capacity", "elu", "sum", 20),
    ]
    costs = [run.task.cost(run.training) for run in runs]
    assert costs == sorted(costs, reverse=True)
