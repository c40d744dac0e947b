"""`fastweights report`: from records to a page, one's own runs included, and one clear line where it cannot."""

from pathlib import Path

import pytest

from command import run
from fastweights.cli.train import train
from fastweights.experiments.records import load
from shown_figures import show_only
from tiny_language_model import train_options

SHORT = ["--set", "num_keys=6", "--set", "key_dim=8", "--set", "max_steps=40", "--set", "evaluate_every=20"]


def test_a_report_of_own_runs(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show_only(monkeypatch, retrieval=("figure2",))
    run(["run", "capacity", *SHORT], capsys)
    assert (tmp_path / "fastweights-results" / "records").is_dir()
    train(train_options(text, results=None))
    capsys.readouterr()
    code, output, _ = run(["report"], capsys)
    assert code == 0
    assert output == "The report is fastweights-report/report.html\n"
    page = Path("fastweights-report/report.html").read_text(encoding="utf-8")
    others = page.partition('id="other-runs"')[2]
    assert "capacity-dpfp1-sum-S6-d8-seed1" in others
    assert "cpu-linear-delta" in others


def test_marked_tables_and_figures_go_elsewhere_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    show_only(monkeypatch, retrieval=("figure2",))
    run(["run", "capacity", *SHORT], capsys)
    Path("notes.md").write_text("before <!-- other --><!-- end other --> after")
    code, _, _ = run(["report", "--update", "notes.md", "--figures", "pictures"], capsys)
    assert code == 0
    notes = Path("notes.md").read_text()
    assert "| capacity-dpfp1-sum-S6-d8-seed1 |" in notes
    assert notes.startswith("before ")
    assert notes.endswith(" after")
    assert (tmp_path / "pictures" / "figure2.svg").exists()


def test_without_records_there_is_nothing_to_report(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run(["report"], capsys)
    assert code == 1
    assert "no records in fastweights-results" in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("command", [["run", "capacity"], ["reproduce", "figure3", "--quick"], ["report"]])
def test_bad_results_are_one_clear_line(command: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    code, _, error = run([*command, "--results", str(taken)], capsys)
    assert (code, error) == (1, f"error: results folder: {taken} is a file, a folder is needed\n")
    broken = tmp_path / "results" / "records" / "x.json"
    broken.parent.mkdir(parents=True)
    broken.write_text('{"format": 1, ')
    code, _, error = run([*command, "--results", str(broken.parents[1])], capsys)
    assert code == 1
    assert error.startswith(f"error: {broken}: corrupted")
    assert error.count("\n") == 1


def test_a_folder_that_is_a_file_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    code, _, error = run(["report", "--out", str(taken)], capsys)
    assert (code, error) == (1, f"error: out: {taken} is a file, a folder is needed\n")


def test_a_record_of_an_impossible_run_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["run", "capacity", *SHORT, "--results", str(tmp_path)], capsys)
    assert len(load(tmp_path)) == 1
    (path,) = (tmp_path / "records").iterdir()
    path.write_text(path.read_text().replace('"num_keys": 6', '"num_keys": 1'))
    code, _, error = run(["report", "--results", str(tmp_path)], capsys)
    assert code == 1
    assert error.startswith(f"error: {path}: corrupted record, num_keys")


def test_a_file_or_folder_that_cannot_be_written_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run(["report", "--update", "nofile.md"], capsys)
    expected = "error: update: there is no file nofile.md; the tables are filled into files that exist\n"
    assert (code, error) == (1, expected)
    run(["run", "capacity", *SHORT], capsys)
    code, _, error = run(["report", "--out", "/proc/report"], capsys)
    assert code == 1
    assert error.startswith("error: out: /proc/report cannot be made (No such file or directory)")
