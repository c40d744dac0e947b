"""`fastweights reproduce`: what it trains, what it shows, and one clear line where it cannot."""

from pathlib import Path

import pytest

from command import run
from fastweights.cli import reproduce as command
from fastweights.experiments.families import codec
from fastweights.experiments.records import load
from fastweights.experiments.retrieval import figure3
from fastweights.runs.record import write_record
from retrieval_records import record
from shown_figures import show_only


def test_figure_1_needs_no_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show_only(monkeypatch, retrieval=("figure1",))
    code, output, _ = run(["reproduce", "figure1"], capsys)
    assert (code, output) == (0, "The report is fastweights-report/report.html\n")
    assert (tmp_path / "fastweights-report" / "figures" / "figure1.svg").exists()


@pytest.fixture
def _only_figure_3(monkeypatch: pytest.MonkeyPatch) -> None:
    show_only(monkeypatch, retrieval=("figure3",))


@pytest.mark.usefixtures("_only_figure_3")
def test_what_has_records_is_shown_without_training(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for wanted in figure3.runs():
        write_record(tmp_path / "results", codec().name(wanted), record(wanted))
    code, output, _ = run(["reproduce", "figure3", "--results", "results"], capsys)
    assert code == 0
    assert "DPFP-1, delta rule" in output
    assert not (tmp_path / "results" / "runs").exists()


@pytest.mark.usefixtures("_only_figure_3")
def test_runs_without_a_record_are_made_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    short = ("num_keys=4", "key_dim=4", "max_steps=20", "evaluate_every=10")
    runs = [codec().changed(each, short) for each in figure3.runs()[:2]]
    monkeypatch.setattr(figure3, "runs", lambda options: runs)
    code, output, error = run(["reproduce", "figure3", "--quick", "--jobs", "2", "--results", "results"], capsys)
    assert (code, error) == (0, "")
    assert set(load(Path("results"))) == set(runs)
    assert "2/2" in output
    assert Path("fastweights-report/report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["reproduce"], "name at least one of figure1, figure2"),
        (["reproduce", "figure2", "--jobs", "0"], "jobs must be at least 1, got 0"),
        (["reproduce", "figure2", "--seeds", "-1"], "seed: expected at least 0, got -1"),
        (["reproduce", "table2", "--quick"], "--quick is for figures"),
        (["reproduce", "table2", "--threads", "0"], "threads: expected at least 1, got 0"),
        (["reproduce", "table2", "--device", "tpu9"], "device"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, error = run(arguments, capsys)
    assert code == 1
    assert complaint in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("arguments", [["reproduce", "figure9"], ["reproduce", "--quik"]])
def test_a_misspelled_choice_is_answered_with_the_choices(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, output, error = run(arguments, capsys)
    assert (code, output) == (2, "")
    assert "Traceback" not in error


def test_a_damaged_record_costs_no_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = tmp_path / "results" / "records" / "x.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{")
    monkeypatch.setattr(command, "train", lambda *given: pytest.fail("trained"))
    code, _, error = run(["reproduce", "figure3", "--results", "results"], capsys)
    assert code == 1
    assert "x.json: corrupted" in error
