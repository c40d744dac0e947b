"""One folder, one run, one owner."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from fastweights.files import read_json
from fastweights.runs.directory import InUseError, RunDirectory

CONFIG = {"model": {"dim": 8, "rule": "delta"}, "seed": 1}


def claim_once(path: Path) -> None:
    with RunDirectory.claim(path, CONFIG, {"threads": 1}):
        pass


def test_a_new_directory_keeps_what_the_run_is(tmp_path: Path) -> None:
    claim_once(tmp_path / "a" / "ü b")
    assert read_json(tmp_path / "a" / "ü b" / "config.json") == CONFIG
    assert read_json(tmp_path / "a" / "ü b" / "environment.json") == {"threads": 1}
    claim_once(tmp_path / "a" / "ü b")


def test_another_run_is_refused_by_naming_what_differs(tmp_path: Path) -> None:
    claim_once(tmp_path)
    other = {"model": {"dim": 9, "rule": "delta"}, "seed": 1, "extra": 2}
    with (
        pytest.raises(ValueError, match=r"model.dim: 8 there, 9 asked; extra: None there, 2 asked"),
        RunDirectory.claim(tmp_path, other, {}),
    ):
        pass
    assert read_json(tmp_path / "config.json") == CONFIG


def test_a_folder_with_other_things_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("")
    with pytest.raises(ValueError, match="holds other things than a run"):
        claim_once(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(ValueError, match="expected a folder"):
        claim_once(tmp_path / "run")


def test_what_a_killed_process_left_is_no_obstacle(tmp_path: Path) -> None:
    for name in (".lock", ".config.json.99", ".environment.json.99"):
        (tmp_path / name).write_text("{")
    claim_once(tmp_path)
    assert sorted(file.name for file in tmp_path.iterdir()) == [
        ".lock",
        "checkpoints",
        "config.json",
        "environment.json",
    ]


def test_a_corrupted_configuration_is_named(tmp_path: Path) -> None:
    claim_once(tmp_path)
    (tmp_path / "config.json").write_text('{"model"')
    with pytest.raises(ValueError, match=r"config.json: corrupted"):
        claim_once(tmp_path)


def test_a_second_owner_is_refused_and_a_dead_one_forgotten(tmp_path: Path) -> None:
    script = (
        "import sys, time, pathlib\n"
        "from fastweights.runs.directory import RunDirectory\n"
        f"with RunDirectory.claim(pathlib.Path(sys.argv[1]), {CONFIG!r}, {{}}):\n"
        "    print('mine', flush=True)\n"
        "    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", script, str(tmp_path)], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "mine\n"
        with pytest.raises(InUseError, match=f"in use by another process \\({other.pid}\\)"):
            claim_once(tmp_path)
        other.kill()
    claim_once(tmp_path)
    assert (tmp_path / ".lock").read_text() == f"{os.getpid()}\n"


def test_metrics_are_rewound_to_a_checkpoint(tmp_path: Path) -> None:
    with RunDirectory.claim(tmp_path, CONFIG, {}) as directory:
        directory.log(step=1, loss=1 / 3)
        size = directory.settle_metrics()
        directory.log(step=2, loss=0.1)
        with directory.metrics.open("a") as file:
            file.write('{"step": 3, "lo')
        assert directory.rewind_metrics(size)
        directory.log(step=2, loss=0.2)
        assert [line["loss"] for line in directory.lines()] == [1 / 3, 0.2]
        assert not directory.rewind_metrics(10_000)
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert rows == [{"step": 1, "loss": 1 / 3}, {"step": 2, "loss": 0.2}]


def test_a_helper_process_writes_nothing(tmp_path: Path) -> None:
    helper = RunDirectory(tmp_path, owner=False)
    helper.log(step=1)
    helper.finish({"steps": 1})
    helper.keep("vocabulary.json", "{}")
    helper.rewind_metrics(0)
    assert helper.settle_metrics() == 0
    assert list(tmp_path.iterdir()) == []


def test_what_an_earlier_version_wrote_is_compared_in_todays_form(tmp_path: Path) -> None:
    claim_once(tmp_path)
    today = {**CONFIG, "new": 0}
    current = lambda config: {"new": 0, **config}  # noqa: E731
    with RunDirectory.claim(tmp_path, today, {}, current):
        pass
    # The file stays, and with it the identity that its checkpoints carry.
    assert read_json(tmp_path / "config.json") == CONFIG
    with (
        pytest.raises(ValueError, match="new: 0 there, 1 asked"),
        RunDirectory.claim(tmp_path, {**CONFIG, "new": 1}, {}, current),
    ):
        pass


def test_a_run_keeps_files_and_its_result(tmp_path: Path) -> None:
    with RunDirectory.claim(tmp_path, CONFIG, {}) as directory:
        assert directory.result is None
        for content in ("first", "second"):
            directory.keep("vocabulary.json", content)
        directory.finish({"steps": 3})
        assert directory.result == {"steps": 3}
        assert directory.config == CONFIG
    assert (tmp_path / "vocabulary.json").read_text() == "first"


@pytest.mark.parametrize("content", ["", "{", "\0" * 100, "[]"])
def test_a_corrupted_result_is_named(tmp_path: Path, content: str) -> None:
    claim_once(tmp_path)
    (tmp_path / "result.json").write_text(content)
    with pytest.raises(ValueError, match=r"result\.json: corrupted"):
        assert RunDirectory(tmp_path).result


def test_a_folder_without_a_run_says_so(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"not the folder of a run, there is no config\.json"):
        assert RunDirectory(tmp_path, owner=False).config


def test_a_checkpoint_of_another_run_is_refused(tmp_path: Path) -> None:
    claim_once(tmp_path)
    directory = RunDirectory(tmp_path)
    directory.refuse_foreign({"run": directory.identity}, "checkpoint")
    with pytest.raises(ValueError, match="checkpoint: a checkpoint of another run"):
        directory.refuse_foreign({"run": "0" * 24}, "checkpoint")
