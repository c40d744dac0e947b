"""`fastweights run`: one run, its record, and one clear line where it cannot."""

import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest

from babi_files import write_task
from command import run
from fastweights.experiments.families import codec
from fastweights.experiments.questions.config import QuestionsConfig
from fastweights.experiments.questions.presets import preset as questions
from fastweights.experiments.records import load
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED
from fastweights.experiments.retrieval.presets import preset
from fastweights.experiments.retrieval.reads import FastWeightRead
from fastweights.feature_maps import DPFP, Favor
from fastweights.runs.checkpoint import newest_checkpoint
from retrieval_records import task_of

SHORT = ["--set", "num_keys=6", "--set", "key_dim=8", "--set", "max_steps=40", "--set", "evaluate_every=20"]


def test_a_run_leaves_a_record_and_is_not_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    results = tmp_path / "with space and ü"
    for _ in range(2):
        code, output, _ = run(["run", "overwriting", *SHORT, "--results", str(results)], capsys)
        assert code == 0
        assert "overwriting-dpfp1-delta-S6-d8-seed1: best loss" in output
        (path,) = (results / "records").iterdir()
        assert f"The record is {path}\n" in output
        stamp = path.stat().st_mtime_ns
    assert path.stat().st_mtime_ns == stamp
    (found,) = load(results)
    task = task_of(found)
    assert (task.num_keys, task.key_dim, found.training.steps, task.setting) == (6, 8, 40, "overwriting")


def test_a_folder_of_data_goes_to_the_task(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_task(tmp_path / "babi", 1, 11)
    small = ["training.steps=2", "training.batch_size=4", "model.model_dim=16"]
    changes = [argument for change in small for argument in ("--set", change)]
    arguments = ["run", "questions", *changes, "--results", str(tmp_path / "results"), "--data"]
    code, output, _ = run([*arguments, str(tmp_path / "babi")], capsys)
    assert code == 0
    assert "qa1-10000-delta-l2-seed1: best loss" in output
    code, output, _ = run([*arguments, str(tmp_path / "babi")], capsys)
    assert (code, "best loss" in output) == (0, True)
    write_task(tmp_path / "more", 1, 12)
    code, _, error = run([*arguments, str(tmp_path / "more")], capsys)
    assert (code, error.count("\n")) == (1, 1)
    assert "data: qa1-10000-delta-l2-seed1 has a record on other data than" in error
    (tmp_path / "babi" / "qa1_small_train.txt").write_text("1 Mary moved.\ngarbage\n")
    code, _, error = run([*arguments, str(tmp_path / "babi"), "--set", "training.seed=2"], capsys)
    assert (code, error.count("\n")) == (1, 1)
    assert "qa1_small_train.txt: line 2 is damaged; expected `ID text`, got 'garbage'" in error


def test_another_task_of_babi_has_its_own_name_and_recipe(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_task(tmp_path / "babi", 2, 11)
    small = ["number=2", "examples=1000", "training.steps=2", "training.batch_size=4", "model.model_dim=16"]
    changes = [argument for change in small for argument in ("--set", change)]
    places = ["--data", str(tmp_path / "babi"), "--results", str(tmp_path / "results")]
    code, output, _ = run(["run", "questions", "--model", "sum", *changes, *places], capsys)
    assert (code, "qa2-1000-sum-seed1: best loss" in output) == (0, True)
    (found,) = load(tmp_path / "results")
    usual = questions("questions", "sum", number=2, examples=1000)
    assert isinstance(found.task, QuestionsConfig)
    assert isinstance(usual.task, QuestionsConfig)
    assert found.task.model.num_layers == usual.task.model.num_layers == 3
    assert found.training == replace(usual.training, steps=2, batch_size=4)


def test_options_describe_a_run() -> None:
    described = codec().changed(
        preset("capacity", "elu", None),
        ["num_keys=50", "attention.feature_map=dpfp", "attention.feature_map.nu=2", "protocol=published", "seed=7"],
    )
    read = task_of(described).attention
    assert isinstance(read, FastWeightRead)
    assert read.feature_map == DPFP(nu=2)
    assert (task_of(described).num_keys, described.training.seed) == (50, 7)
    assert task_of(described).protocol == AS_PUBLISHED
    other = codec().changed(preset("overwriting", "favor128", "sum"), ["attention.feature_map.stabilised=true"])
    read = task_of(other).attention
    assert isinstance(read, FastWeightRead)
    assert read.feature_map == Favor(128, stabilised=True)


@pytest.mark.parametrize(
    ("earlier", "now"),
    [
        ("num_keys=50", "task.num_keys=50"),
        ("attention.feature_map.nu=2", "task.attention.feature_map.nu=2"),
        ("max_steps=7", "training.steps=7"),
        ("learning_rate=0.5", "training.learning_rate=0.5"),
        ("stop_loss=0.5", "stopping.target=0.5"),
        ("patience=3", "stopping.patience=3"),
    ],
)
def test_names_of_fields_may_be_those_of_version_0_1(earlier: str, now: str) -> None:
    start = preset("capacity", "dpfp1")
    assert codec().changed(start, [earlier]) == codec().changed(start, [now]) != start


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--set", "num_keys=1"], "num_keys: must be an integer of at least 2, got 1"),
        (["--set", "num_keys=many"], "num_keys: expected int, got 'many'"),
        (["--set", "num_keys"], "--set: expected FIELD=VALUE, got 'num_keys'"),
        (["--set", "attention.feature_map=dpfq"], "unknown name 'dpfq' (did you mean 'dpfp'?); possible: identity"),
        (["--set", "attention.feature_map.nu=0"], "nu must be an integer of at least 1, got 0"),
        (["--set", "atention.feature_map=dpfp"], "unknown field 'atention' (did you mean 'attention'?); possible:"),
        (["--set", "learning_rate=NaN"], "finite number, got NaN"),
        (["--set", "learning_rate=1e400"], "learning_rate: expected a positive finite number, got inf"),
        (["--set", "protocol=txt"], "protocol: unknown name 'txt' (did you mean 'text'?); possible: text, published"),
        (["--model", "dpfp9"], "model: unknown name 'dpfp9' (did you mean 'dpfp3'?); possible: softmax, elu"),
        (["--rule", "../x"], "rule: unknown name '../x'; possible: sum, delta"),
    ],
)
def test_a_bad_option_is_one_clear_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, output, error = run(["run", "capacity", *arguments], capsys)
    assert (code, output) == (1, "")
    assert error.startswith("error: ")
    assert error.count("\n") == 1
    assert complaint in error


def test_a_misspelled_task_is_answered_with_the_choices(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, error = run(["run", "capcity"], capsys)
    assert (code, output) == (2, "")
    assert "Traceback" not in error
    assert "capacity" in error


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_interrupted_goes_on_where_it_was(number: int, code: int, tmp_path: Path) -> None:
    arguments = [*SHORT, "--set", "max_steps=3000", "--set", "stop_loss=0.0", "--set", "patience=1000"]
    command = [sys.executable, "-m", "fastweights.cli", "run", "capacity", *arguments, "--results", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while process.poll() is None and not any(file.stat().st_size for file in tmp_path.glob("runs/*/metrics.jsonl")):
        time.sleep(0.02)
    process.send_signal(number)
    _, error = process.communicate(timeout=600)
    assert process.returncode == code
    assert "Traceback" not in error
    (folder,) = tmp_path.glob("runs/*/checkpoints")
    saved = newest_checkpoint(folder).checkpoint
    assert saved is not None
    assert 0 < saved.step < 3000
    assert not (tmp_path / "records").exists()
    subprocess.run(command, check=True, capture_output=True)
    (record,) = load(tmp_path).values()
    assert record.result["steps"] == 3000
