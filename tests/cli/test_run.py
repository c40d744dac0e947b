"""The verbs run, reproduce and report as a user meets them: what they do, and one clear line where they cannot."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from fastweights.cli.main import commands
from fastweights.cli.main import main as cli
from fastweights.experiments.retrieval.execute import PUBLISHED, FastWeightRead
from fastweights.experiments.runs import load

from fastweights.feature_maps import DPFP, Favor

SHORT = ["--set", "num_keys=6", "--set", "key_dim=8", "--set", "max_steps=40", "--set", "evaluate_every=20"]


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command."""
    code = 0
    try:
        cli.main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    output, error = capsys.readouterr()
    return code, output, error


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


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
    assert (found.num_keys, found.key_dim, found.max_steps, found.setting) == (6, 8, 40, "overwriting")


def test_a_report_of_own_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["run", "capacity", *SHORT], capsys)
    assert (tmp_path / "fastweights-results" / "records").is_dir()
    code, output, _ = run(["report"], capsys)
    assert code == 0
    assert output == "The report is fastweights-report/report.html\n"
    assert "capacity-dpfp1-sum-S6-d8-seed1" in Path("fastweights-report/report.html").read_text(encoding="utf-8")


def test_figure_1_needs_no_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = run(["reproduce", "figure1"], capsys)
    assert (code, output) == (0, "The report is fastweights-report/report.html\n")
    assert (tmp_path / "fastweights-report" / "figures" / "figure1.svg").exists()


def test_options_describe_a_run() -> None:
    described = commands.configured(
        "capacity",
        "elu",
        None,
        ["num_keys=50", "attention.feature_map=dpfp", "attention.feature_map.nu=2", "protocol=published", "seed=7"],
    )
    assert isinstance(described.attention, FastWeightRead)
    assert described.attention.feature_map == DPFP(nu=2)
    assert (described.num_keys, described.seed, described.protocol) == (50, 7, PUBLISHED)
    other = commands.configured("overwriting", "favor128", "sum", ["attention.feature_map.stabilised=true"])
    assert isinstance(other.attention, FastWeightRead)
    assert other.attention.feature_map == Favor(128, stabilised=True)


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
        (["--set", "learning_rate=1e400"], "finite number of at least 0, got inf"),
        (["--set", "protocol=txt"], "protocol: must be one of text, published, got 'txt'"),
        (["--model", "dpfp9"], "model: must be one of softmax, elu"),
        (["--rule", "../x"], "rule: must be one of sum, delta"),
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


def test_a_record_of_an_impossible_run_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["run", "capacity", *SHORT, "--results", str(tmp_path)], capsys)
    (path,) = (tmp_path / "records").iterdir()
    path.write_text(path.read_text().replace('"num_keys": 6', '"num_keys": 1'))
    code, _, error = run(["report", "--results", str(tmp_path)], capsys)
    assert code == 1
    assert error.startswith(f"error: {path}: corrupted record, num_keys")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["reproduce"], "name at least one of figure1, figure2"),
        (["reproduce", "figure2", "--jobs", "0"], "jobs must be at least 1, got 0"),
        (["reproduce", "figure2", "--seeds", "-1"], "seed: must be an integer of at least 0, got -1"),
        (["reproduce", "table2", "--quick"], "--quick and --seeds are for figures"),
        (["report"], "no records in fastweights-results"),
    ],
)
def test_what_cannot_be_done_is_one_clear_line(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code, _, error = run(arguments, capsys)
    assert code == 1
    assert complaint in error
    assert error.count("\n") == 1


@pytest.mark.parametrize("arguments", [["run", "capcity"], ["reproduce", "figure9"], ["reproduce", "--quik"]])
def test_a_misspelled_choice_is_answered_with_the_choices(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    code, output, error = run(arguments, capsys)
    assert (code, output) == (2, "")
    assert "Traceback" not in error


def test_results_go_into_the_repository_only_from_inside_it(tmp_path: Path) -> None:
    assert commands.default_results() == Path("fastweights-results")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "another"\n')
    assert commands.default_results() == Path("fastweights-results")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "fastweights"\n')
    assert commands.default_results() == Path("results")


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_run_that_is_interrupted_goes_on_where_it_was(number: int, code: int, tmp_path: Path) -> None:
    arguments = [*SHORT, "--set", "max_steps=3000", "--set", "stop_loss=0.0", "--set", "patience=1000"]
    command = [sys.executable, "-m", "fastweights.cli.main", "run", "capacity", *arguments, "--results", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    while not list(tmp_path.glob("runs/*/metrics.jsonl")):
        time.sleep(0.02)
    time.sleep(0.3)
    os.kill(process.pid, number)
    _, error = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in error
    assert list(tmp_path.glob("runs/*/checkpoint.safetensors"))
    assert not (tmp_path / "records").exists()
    subprocess.run(command, check=True, capture_output=True)
    (record,) = load(tmp_path).values()
    assert record.result["steps"] == 3000
