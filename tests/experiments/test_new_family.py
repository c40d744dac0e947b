"""A family of experiments is one folder and one line: it trains, resumes, sweeps, records and is in the report."""

import json
import os
import signal
import subprocess
import sys
import time
from importlib import import_module
from pathlib import Path

import pytest
import torch

from fastweights.experiments import EXPERIMENTS, shown_modules
from fastweights.experiments.carry_out import carry_out, sweep_runs
from fastweights.experiments.families import codec
from fastweights.experiments.ledger import ledger
from fastweights.experiments.load import load_run
from fastweights.experiments.paper import other_runs, paper_report
from fastweights.experiments.records import load, missing
from fastweights.runs.checkpoint import newest_checkpoint
from fastweights.runs.record import run_folder

TESTS = Path(__file__).parents[1]
COMPLETE = "step-" + "[0-9]" * 6
PATHS = os.pathsep.join(map(str, (TESTS / "toy_line", TESTS)))


@pytest.fixture(autouse=True)
def _toy_family(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one line, here and in every process that is started from here."""
    monkeypatch.setitem(EXPERIMENTS, "toy", "toy_family")
    monkeypatch.setenv("PYTHONPATH", PATHS)


def program(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "fastweights.cli", *arguments]


def run_program(folder: Path, *arguments: str) -> str:
    done = subprocess.run(program(*arguments), cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_run_trains_and_leaves_a_record_and_a_model(tmp_path: Path) -> None:
    from toy_family.presets import preset

    run = codec().changed(preset("fit"), ["points=30", "noise=0.0", "training.steps=600"])
    record = carry_out(run, tmp_path)
    assert record is not None
    assert record.result["best_loss"] < 1e-3
    assert load(tmp_path) == {run: record}
    assert missing([run], tmp_path) == []
    model, found, checkpoint = load_run(run_folder(tmp_path, codec().name(run)))
    assert found == run
    assert checkpoint.step == record.result["best_step"]
    assert isinstance(model, torch.nn.Linear)
    assert model.weight.item() == pytest.approx(2, abs=0.1)
    table = other_runs({run: record})
    assert table is not None
    assert table.rows[0][0] == "fit-30-seed1"


def test_the_program_runs_it_by_its_name(tmp_path: Path) -> None:
    output = run_program(tmp_path, "run", "fit", "--set", "points=30", "--results", "results")
    assert "fit-30-seed1: best loss" in output
    ((run, record),) = load(tmp_path / "results").items()
    assert run.slug == "fit-30-seed1"
    assert record.result["steps"] == 400
    wrong = subprocess.run(program("run", "fit", "--set", "points=1"), cwd=tmp_path, capture_output=True, text=True)
    assert (wrong.returncode, wrong.stderr) == (1, "error: points: two make a line, got 1\n")


@pytest.mark.slow
def test_killed_it_resumes_to_the_same_metrics(tmp_path: Path) -> None:
    arguments = ["run", "fit", "--set", "training.steps=1500", "--set", "stopping.patience=null"]
    command = program(*arguments, "--results", str(tmp_path / "killed"))
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    deadline = time.monotonic() + 300
    while not list(tmp_path.glob(f"killed/runs/*/checkpoints/{COMPLETE}")) and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(process.pid, signal.SIGKILL)
    _, error = process.communicate()
    assert process.returncode == -signal.SIGKILL, error
    (folder,) = tmp_path.glob("killed/runs/*")
    saved = newest_checkpoint(folder / "checkpoints").checkpoint
    assert saved is not None
    assert 0 < saved.step < 1500
    assert not (folder / "result.json").exists()
    run_program(tmp_path, *arguments, "--results", str(tmp_path / "killed"))
    (run,) = load(tmp_path / "killed")
    carry_out(run, tmp_path / "whole")
    assert (folder / "metrics.jsonl").read_bytes() == next(tmp_path.glob("whole/runs/*/metrics.jsonl")).read_bytes()
    results = [json.loads(path.read_text())["result"] for path in sorted(tmp_path.glob("*/records/*.json"))]
    assert [result.pop("seconds") >= 0 for result in results] == [True, True]
    assert [result.pop("core_seconds") > 0 for result in results] == [True, True]
    assert results[0] == results[1]


def test_it_is_swept_by_two_processes_and_is_in_the_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from toy_family import fits

    sweep_runs(fits.runs(), tmp_path / "swept", jobs=2, title="toy")
    records = load(tmp_path / "swept")
    assert set(records) == set(fits.runs())
    assert missing(fits.runs(), tmp_path / "swept") == []
    for run in fits.runs():
        here = carry_out(run, tmp_path / "here")
        assert here is not None
        assert here.curve == records[run].curve
    # Drawing the figures of the other families takes a while.
    for package in EXPERIMENTS.values():
        if package != "toy_family":
            monkeypatch.setattr(import_module(package), "SHOWS", ())
    section, commands, claims, *_ = paper_report(records).sections
    assert section.title == "Fits: lines through points"
    assert [row[0] for row in section.tables[0].rows] == ["2", "20", "200"]
    (row,) = commands.tables[0].rows
    assert row[:3] == ("Fits", "`fastweights reproduce fits`", "3 of 3")
    (row,) = (row for row in claims.tables[0].rows if row[0] == "toy")
    assert row[1] == "The more points, the nearer the line."
    assert row[-1] in ("holds", "does not hold")


@pytest.mark.slow
def test_the_program_reproduces_it(tmp_path: Path) -> None:
    output = run_program(tmp_path, "reproduce", "fits", "--jobs", "2", "--results", "results")
    assert "3/3 fit-" in output
    assert len(load(tmp_path / "results")) == 3
    page = (tmp_path / "fastweights-report" / "report.html").read_text(encoding="utf-8")
    assert "Fits: lines through points" in page
    assert "<code>fastweights reproduce fits</code>" in page
    assert "The more points, the nearer the line." in page
    assert "Other runs" not in page


def test_its_claims_are_judged_with_the_others() -> None:
    rows = [row for row in ledger({}).rows if row[0] == "toy"]
    assert [row[-1] for row in rows] == ["not run yet"]
    assert list(shown_modules())[-1] == "fits"
