"""Records survive the way to the disk and back, and anything else than a record is refused by name."""

import json
import math
import multiprocessing
import time
from pathlib import Path

import pytest

from fastweights.runs.record import (
    LARGEST_RECORD,
    Record,
    exclusive,
    read_json,
    read_record,
    read_records,
    record_of_directory,
    record_path,
    thinned,
    write_text,
)

RECORD = Record(
    config={"num_keys": 20},
    result={"best_loss": 0.25, "last_loss": None, "steps": 300},
    curve={"step": [100, 200, 300], "loss": [0.5, 0.25, None]},
    environment={"python": "3.11"},
)


def stored(folder: Path, text: str) -> Path:
    path = record_path(folder, "run")
    write_text(path, text)
    return path


def test_a_record_reads_back_as_it_was_written(tmp_path: Path) -> None:
    path = stored(tmp_path, RECORD.to_json())
    assert read_record(path) == RECORD
    assert read_records(tmp_path) == {path: RECORD}


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
        ({"format": 2}, "not a record of format 1, its format is 2"),
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


@pytest.mark.parametrize("text", ["[]", "3", "null", '"x"'])
def test_json_that_is_no_object_is_refused(text: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="should hold an object"):
        read_json(stored(tmp_path, text))


def test_deep_and_huge_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="corrupted"):
        read_json(stored(tmp_path, "[" * 100_000 + "]" * 100_000))
    with pytest.raises(ValueError, match="no record"):
        read_json(stored(tmp_path, " " * (LARGEST_RECORD + 1)))
    path = tmp_path / "bytes.json"
    path.write_bytes(b"\xff\xfe\x00{}")
    with pytest.raises(ValueError, match="corrupted"):
        read_json(path)


def test_a_results_folder_that_is_a_file_is_refused(tmp_path: Path) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    with pytest.raises(ValueError, match=f"{taken} is a file"):
        read_records(taken)


def test_a_run_directory_becomes_a_record(tmp_path: Path) -> None:
    rows = [{"step": 100, "loss": 0.123456789}, {"step": 200, "loss": None}]
    write_text(tmp_path / "metrics.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    write_text(tmp_path / "config.json", json.dumps({"learning_rate": 0.0012345678}))
    write_text(tmp_path / "result.json", json.dumps({"best_loss": 0.123456789, "parts": {"text": math.pi}}))
    write_text(tmp_path / "environment.json", "{}")
    record = record_of_directory(tmp_path)
    assert record.curve == {"step": [100, 200], "loss": [0.123457, None]}
    assert record.result == {"best_loss": 0.123457, "parts": {"text": 3.14159}}
    assert record.config == {"learning_rate": 0.0012345678}  # what decides the numbers is kept to the last digit


@pytest.mark.parametrize("length", [0, 1, 200, 201, 999, 1000])
def test_a_long_curve_is_thinned_but_keeps_its_ends(length: int) -> None:
    rows = [{"step": step} for step in range(length)]
    kept = thinned(rows)
    assert len(kept) <= 201
    assert kept[:1] == rows[:1]
    assert kept[-1:] == rows[-1:]
    assert [row["step"] for row in kept] == sorted(row["step"] for row in kept)
    assert length > 200 or kept == rows


def test_writing_replaces_a_file_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "file.txt"
    write_text(path, "first")
    write_text(path, "second")
    assert path.read_text() == "second"
    assert list(path.parent.iterdir()) == [path]


def hold(directory: Path, holding: "multiprocessing.synchronize.Event") -> None:
    with exclusive(directory) as owned:
        assert owned
        holding.set()
        time.sleep(60)


def test_a_directory_has_one_owner_and_a_killed_one_owns_nothing(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    holding = context.Event()
    owner = context.Process(target=hold, args=(tmp_path, holding))
    owner.start()
    assert holding.wait(60)
    with exclusive(tmp_path) as owned:
        assert not owned
    owner.kill()
    owner.join()
    with exclusive(tmp_path) as owned:
        assert owned
