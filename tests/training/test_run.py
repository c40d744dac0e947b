"""Runs as values: what version 0.1 wrote is read, --set changes any field, and a new field orphans nothing."""

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import small_sweep
from tiny_run import TASK, TRAINING

from fastweights.experiments.carry_out import Stopped, carry_out
from fastweights.experiments.families import codec
from fastweights.experiments.language_models.config import LanguageModellingConfig
from fastweights.experiments.language_models.presets import PRESETS, for_text
from fastweights.experiments.records import load, missing
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED, AS_WRITTEN
from fastweights.experiments.retrieval.presets import preset
from fastweights.runs.record import read_records
from fastweights.training.config import TrainingConfig
from fastweights.training.run import Run
from fastweights.training.stopping import Stopping

RESULTS = Path(__file__).parents[2] / "results"
OLD_RETRIEVAL = """{"setting": "overwriting", "num_keys": 120, "attention": {"name": "fast-weights", "feature_map":
{"name": "dpfp", "nu": 2}, "update_rule": {"name": "sum"}, "normalisation": {"name": "none"}, "attention_normalisation":
true, "epsilon": 1e-06, "clamp_first_write": false}, "key_dim": 64, "learning_rate": 0.001, "batch_size": 32, "seed": 1,
"evaluate_every": 100, "patience": 11, "stop_loss": 0.001, "max_steps": 100000, "protocol": {"sequences": 20, "length":
"S", "max_queries": 200, "average": "chunks", "redraw": true}}"""
OLD_LANGUAGE_MODEL = """{"model": {"vocabulary_size": 33278, "model_dim": 128, "num_heads": 8, "num_layers": 4,
"feed_forward_dim": 512, "attention": {"name": "fast-weight", "feature_map": {"name": "dpfp", "nu": 1}, "update_rule":
{"name": "delta"}, "normalisation": {"name": "sum"}, "attention_normalisation": null, "backend": "auto"}, "positions":
true, "pre_norm": false, "dropout": 0.1, "cutoffs": [1000, 4000, 12000]}, "training": {"steps": 1250, "batch_size": 16,
"segment_length": 256, "learning_rate": 0.001, "warmup_steps": 100, "clip_norm": 0.25, "accumulation": 1, "carry_state":
false, "shuffle": false, "precision": "float32", "log_every": 10, "evaluate_every": 250, "seed": 1111}, "text":
"12b4c3fd30aa0edf6827670d"}"""

RETRIEVAL = preset("overwriting", "dpfp2", "sum", 120, 1, AS_PUBLISHED)
LANGUAGE_MODEL = for_text(PRESETS["cpu-dpfp-delta"], 33_278, "12b4c3fd30aa0edf6827670d")


@pytest.mark.parametrize(
    ("old", "run"), [(OLD_RETRIEVAL, RETRIEVAL), (OLD_LANGUAGE_MODEL, LANGUAGE_MODEL)], ids=["retrieval", "language"]
)
def test_a_run_of_version_0_1_is_todays_preset(old: str, run: Run) -> None:
    found = codec().from_plain(json.loads(old))
    assert found == run
    assert found.stopping == run.stopping
    assert found.training == run.training
    assert codec().codec.digest(found) == codec().codec.digest(run)


def test_a_carried_run_of_version_0_1_is_read() -> None:
    old = json.loads(OLD_LANGUAGE_MODEL)
    old["training"] |= {"carry_state": True, "segment_length": 64, "seed": 3}
    assert codec().from_plain(old) == replace(
        LANGUAGE_MODEL,
        task=replace(LANGUAGE_MODEL.task, carry_state=True, segment_length=64),
        training=replace(LANGUAGE_MODEL.training, seed=3),
    )


@pytest.mark.parametrize(
    ("plain", "message"),
    [
        ({}, "not the configuration of a run; its fields are none"),
        ({"colour": "red"}, "not the configuration of a run; its fields are colour"),
        ({**json.loads(OLD_RETRIEVAL), "colour": "red"}, "not the configuration of a run"),
        ({"model": {}, "training": {"steps": 1, "colour": "red"}}, "unknown fields: training"),
        ({"model": {}, "training": 3}, "training: expected a mapping of fields, got 3"),
        ({"model": {}, "training": ["steps"]}, r"training: expected a mapping of fields, got \['steps'\]"),
        ({"num_keys": "many", "setting": "capacity", "attention": "softmax"}, "task.num_keys: expected int"),
        (
            {"task": {"name": "chess"}},
            "task: unknown name 'chess'; possible: retrieval, translation, documents, language-model",
        ),
        ({"task": {"name": ["retrieval"]}}, r"task: unknown name \['retrieval'\]"),
        ({"task": None}, "task: expected a mapping of fields"),
        ({"task": {"name": "retrieval"}}, "task: missing setting, num_keys, attention$"),
    ],
)
def test_what_is_no_run_is_refused(plain: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        codec().from_plain(plain)


def test_every_preset_comes_back_and_has_a_name_of_its_own() -> None:
    runs = [*PRESETS.values(), RETRIEVAL, LANGUAGE_MODEL, preset("capacity", "softmax"), preset("overwriting", "tanh")]
    for run in runs:
        again = codec().from_plain(json.loads(json.dumps(codec().to_plain(run))))
        assert again == run
        assert again.preset == run.preset
    assert len({codec().name(run) for run in runs}) == len(runs)


def test_names_are_those_that_folders_have() -> None:
    """A name that changes orphans run folders: whatever is added to a configuration must have a default."""
    assert codec().name(RETRIEVAL) == "overwriting-dpfp2-sum-S120-published-seed1-b2222d50077f"
    assert codec().name(LANGUAGE_MODEL) == "cpu-dpfp-delta-1782105c9ceb"


def test_the_name_of_a_preset_decides_nothing() -> None:
    other = replace(LANGUAGE_MODEL, preset="")
    assert other == LANGUAGE_MODEL
    assert hash(other) == hash(LANGUAGE_MODEL)
    assert codec().codec.digest(other) == codec().codec.digest(LANGUAGE_MODEL)
    assert other.slug == "LanguageModellingConfig"


def test_a_seed_that_is_not_the_usual_one_shows_in_the_name() -> None:
    assert LANGUAGE_MODEL.slug == "cpu-dpfp-delta"
    assert replace(LANGUAGE_MODEL, training=replace(LANGUAGE_MODEL.training, seed=2)).slug == "cpu-dpfp-delta-seed2"
    assert RETRIEVAL.slug == "overwriting-dpfp2-sum-S120-published-seed1"


LM, R = LANGUAGE_MODEL, RETRIEVAL


@pytest.mark.parametrize(
    ("run", "change", "expected"),
    [
        (LM, "training.segment_length=8", replace(LM, task=replace(LM.task, segment_length=8))),
        (LM, "task.segment_length=8", replace(LM, task=replace(LM.task, segment_length=8))),
        (LM, "segment_length=8", replace(LM, task=replace(LM.task, segment_length=8))),
        (LM, "training.carry_state=true", replace(LM, task=replace(LM.task, carry_state=True))),
        (LM, "model.num_layers=1", replace(LM, task=replace(LM.task, model=replace(LM.task.model, num_layers=1)))),
        (LM, "task.model.num_layers=1", replace(LM, task=replace(LM.task, model=replace(LM.task.model, num_layers=1)))),
        (LM, "training.steps=7", replace(LM, training=replace(LM.training, steps=7))),
        (LM, "training.clip_norm=null", replace(LM, training=replace(LM.training, clip_norm=None))),
        (LM, "stopping.patience=3", replace(LM, stopping=Stopping(patience=3))),
        (R, "num_keys=6", replace(R, task=replace(R.task, num_keys=6))),
        (R, "task.num_keys=6", replace(R, task=replace(R.task, num_keys=6))),
        (R, "max_steps=40", replace(R, training=replace(R.training, steps=40))),
        (R, "training.steps=40", replace(R, training=replace(R.training, steps=40))),
        (R, "seed=2", replace(R, training=replace(R.training, seed=2))),
        (R, "learning_rate=0.5", replace(R, training=replace(R.training, learning_rate=0.5))),
        (R, "stop_loss=0.1", replace(R, stopping=Stopping(0.1, 11))),
        (R, "patience=2", replace(R, stopping=Stopping(0.001, 2))),
        (R, "protocol=text", replace(R, task=replace(R.task, protocol=AS_WRITTEN))),
        (R, "protocol.sequences=3", replace(R, task=replace(R.task, protocol=replace(AS_PUBLISHED, sequences=3)))),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_set_accepts_old_and_new_paths(run: Run, change: str, expected: Run) -> None:
    found = codec().changed(run, [change])
    assert found == expected
    assert found != run
    assert found.stopping == expected.stopping


def test_changes_deep_inside_follow_each_other() -> None:
    found = codec().changed(LM, ["model.attention.feature_map=favor", "model.attention.feature_map.num_features=4"])
    assert found.task.model.attention.feature_map.num_features == 4
    assert codec().changed(R, ["attention.feature_map.nu=1"]).task == replace(
        preset("overwriting", "dpfp1", "sum", 120).task, protocol=AS_PUBLISHED
    )


@pytest.mark.parametrize(
    ("run", "change", "message"),
    [
        (LM, "model.num_layer=1", r"unknown field 'num_layer' \(did you mean 'num_layers'\?\)"),
        (
            LM,
            "num_keys=6",
            "--set: unknown field 'num_keys'; possible: model, text, segment_length, carry_state, shuffle",
        ),
        (LM, "training.stepz=6", r"training: unknown field 'stepz' \(did you mean 'steps'\?\)"),
        (LM, "training.steps=-1", "steps: expected at least 0, got -1"),
        (LM, "training.steps", "--set: expected FIELD=VALUE"),
        (R, "num_keys=0", "0"),
        (R, "segment_length=8", "unknown field 'segment_length'"),
    ],
)
def test_a_change_that_does_not_fit_is_refused(run: Run, change: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        codec().changed(run, [change])


@dataclass(frozen=True)
class TomorrowsTraining(TrainingConfig):
    """What a later version may have: one more field, with a default."""

    weight_decay: float = 0.0


@pytest.fixture
def tomorrow(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Begins the time in which runs have the new field."""
    return lambda: monkeypatch.setitem(Run.__annotations__, "training", TomorrowsTraining)


def test_a_new_field_orphans_no_record(tomorrow: Any) -> None:
    records = read_records(RESULTS)
    assert len(records) > 300
    before = {path: codec().name(codec().from_plain(record.config)) for path, record in records.items()}
    tomorrow()
    runs = {path: codec().from_plain(record.config) for path, record in records.items()}
    assert {type(run.training) for run in runs.values()} == {TomorrowsTraining}
    assert {path: codec().name(run) for path, run in runs.items()} == before
    assert missing(runs.values(), RESULTS) == []
    assert set(load(RESULTS)) == set(runs.values())


def test_a_new_field_orphans_no_run_folder(tmp_path: Path, tomorrow: Any) -> None:
    run = small_sweep.runs(steps=60)[0]
    whole = carry_out(run, tmp_path / "whole")
    answers = iter([False] * 30 + [True])
    with pytest.raises(Stopped):
        carry_out(run, tmp_path / "parts", interrupted=lambda: next(answers))
    config = next(tmp_path.glob("parts/runs/*/config.json"))
    before = config.read_bytes()
    tomorrow()
    later = codec().from_plain(json.loads(before))
    assert isinstance(later.training, TomorrowsTraining)
    record = carry_out(later, tmp_path / "parts")
    assert record is not None
    assert whole is not None
    assert record.curve == whole.curve
    assert config.read_bytes() == before
    assert [path.name for path in (tmp_path / "parts" / "runs").iterdir()] == [config.parent.name]
    # Another value of the new field is another run, with a folder of its own.
    other = replace(later, training=replace(later.training, weight_decay=0.1))
    assert codec().name(other) != config.parent.name


def test_two_runs_are_equal_if_they_give_the_same_numbers() -> None:
    run = Run(TASK, TRAINING)
    assert run == Run(replace(TASK, test_stride=1), TRAINING)
    assert run != Run(TASK, replace(TRAINING, seed=2))
    assert run != Run(TASK, TRAINING, Stopping(patience=1))
    assert isinstance(run.task, LanguageModellingConfig)
