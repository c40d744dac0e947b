"""Records survive the way to the disk and back, and anything else than a record is refused by name."""

import json
import math
from pathlib import Path

import pytest

from fastweights.files import write_whole
from fastweights.runs.directory import RunDirectory
from fastweights.runs.record import (
    Record,
    is_number,
    read_record,
    read_records,
    record_of,
    record_path,
    rounded,
    run_folder,
    thinned,
    write_record,
)

RECORD = Record(
    config={"num_keys": 20},
    result={"best_loss": 0.25, "last_loss": None, "steps": 300},
    curve={"step": [100, 200, 300], "loss": [0.5, 0.25, None]},
    environment={"python": "3.11"},
)


def stored(folder: Path, text: str) -> Path:
    path = record_path(folder, "run")
    write_whole(path, text)
    return path


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    path = write_record(tmp_path, "run", RECORD)
    assert path == record_path(tmp_path, "run")
    assert read_record(path) == RECORD
    assert read_records(tmp_path) == {path: RECORD}


def test_records_of_version_0_1_are_read_from_both_of_their_places(tmp_path: Path) -> None:
    old = json.dumps(json.loads(RECORD.to_json()) | {"format": 1})
    synthetic, language = record_path(tmp_path, "a"), record_path(tmp_path / "language-models", "b")
    for path in (synthetic, language):
        write_whole(path, old)
    assert read_records(tmp_path) == {synthetic: RECORD, language: RECORD}


def test_a_run_at_work_is_apart_from_the_records(tmp_path: Path) -> None:
    write_whole(run_folder(tmp_path, "run") / "result.json", "{")
    assert read_records(tmp_path) == {}


def test_a_folder_without_records_has_none(tmp_path: Path) -> None:
    assert read_records(tmp_path / "missing") == {}


@pytest.mark.parametrize("length", [0, 1, 10, 57, -2])
def test_a_cut_off_record_is_refused(length: int, tmp_path: Path) -> None:
    path = stored(tmp_path, RECORD.to_json()[:length])
    with pytest.raises(ValueError, match=rf"{path}.*corrupted.*delete it to run it again"):
        read_records(tmp_path)


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"format": 3}, "not a record of format 2, its format is 3"),
        ({"config": []}, "should be objects"),
        ({"curve": {"step": [1, 2], "loss": [1]}}, "differ in length"),
        ({"curve": {"loss": ["<b>"]}}, "columns of numbers"),
        ({"curve": {"loss": 1}}, "columns of numbers"),
        ({"result": {"best_loss": 0.1, "last_loss": "x", "steps": 1}}, "no number 'last_loss'"),
        ({"result": {"best_loss": 0.1, "last_loss": 0.1}}, "no number 'steps'"),
    ],
)
def test_what_is_no_record_is_refused(change: dict[str, object], complaint: str, tmp_path: Path) -> None:
    path = stored(tmp_path, json.dumps(json.loads(RECORD.to_json()) | change))
    with pytest.raises(ValueError, match=f"{path}.*{complaint}"):
        read_record(path)


def test_a_results_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    with pytest.raises(ValueError, match=f"{taken} is a file"):
        read_records(taken)


def test_a_run_directory_becomes_a_record(tmp_path: Path) -> None:
    rows = [
        {"step": 100, "loss": 0.123456789},
        {"step": 150, "epoch": 0, "skipped": "the loss is nan"},
        {"step": 200, "loss": None},
        {"step": 200, "valid_loss": 0.5},
    ]
    write_whole(tmp_path / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    write_whole(tmp_path / "config.json", json.dumps({"learning_rate": 0.0012345678}))
    write_whole(tmp_path / "result.json", json.dumps({"best_loss": 0.123456789, "parts": {"text": math.pi}}))
    write_whole(tmp_path / "environment.json", "{}")
    record = record_of(RunDirectory(tmp_path, owner=False), {"test": {"loss": 1 / 3}})
    assert record.curve == {
        "step": [100, 200, 200],
        "loss": [0.123457, None, None],
        "valid_loss": [None, None, 0.5],
    }
    assert record.result == {"best_loss": 0.123457, "parts": {"text": 3.14159}, "test": {"loss": 0.333333}}
    assert record.config == {"learning_rate": 0.0012345678}  # what decides the numbers is kept to the last digit


def test_what_is_not_finite_becomes_null() -> None:
    assert rounded({"a": math.nan, "b": {"c": math.inf}, "d": 1234567.0, "e": 3, "f": "x"}) == {
        "a": None,
        "b": {"c": None},
        "d": 1234570.0,
        "e": 3,
        "f": "x",
    }
    assert [is_number(x) for x in (None, 1, 0.5, True, "1")] == [True, True, True, False, False]


def test_evaluations_outlive_the_steps_between_them() -> None:
    rows: list[dict[str, float]] = []
    for step in range(10, 3661, 10):
        rows.append({"step": step, "train_loss": 5.0, "learning_rate": 0.1})
        if step % 366 < 10:
            rows.append({"step": step, "valid_loss": 5.0})
    kept = thinned(rows)
    assert [row for row in kept if "valid_loss" in row] == [row for row in rows if "valid_loss" in row]
    assert 180 <= len(kept) <= 215
    assert [rows.index(row) for row in kept] == sorted(rows.index(row) for row in kept)
    assert kept[0] is rows[0]
    assert any(row.get("train_loss") for row in kept if row["step"] == 3660)


@pytest.mark.parametrize("length", [0, 1, 200, 201, 999, 1000])
def test_a_long_curve_is_thinned_but_keeps_its_ends(length: int) -> None:
    rows = [{"step": step} for step in range(length)]
    kept = thinned(rows)
    assert len(kept) <= 201
    assert kept[:1] == rows[:1]
    assert kept[-1:] == rows[-1:]
    assert [row["step"] for row in kept] == sorted(row["step"] for row in kept)
    assert length > 200 or kept == rows
