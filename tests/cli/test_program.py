"""The command line as a user meets it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import fastweights
from command import run
from fastweights.cli import COMMANDS, main
from fastweights.feature_maps import FEATURE_MAPS
from fastweights.memory import NORMALISATIONS
from fastweights.update_rules import UPDATE_RULES


@pytest.mark.parametrize("arguments", [["--help"], ["demo", "--help"], ["--version"], ["dmeo"], ["list", "--no"]])
def test_help_and_mistakes_do_not_wait_for_torch(arguments: list[str]) -> None:
    program = (
        "import sys\nfrom fastweights.cli import main\n"
        f"try:\n    main({arguments!r})\nexcept SystemExit:\n    pass\n"
        "assert 'torch' not in sys.modules and 'matplotlib' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], check=True, capture_output=True)


def test_help_names_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = run(["--help"], capsys)
    assert code == 0
    assert all(name in output for name in COMMANDS)


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = run([command, "--help"], capsys)
    assert code == 0
    assert f"usage: fastweights {command}" in output


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--version"], capsys) == (0, f"fastweights {fastweights.__version__}\n", "")


def test_the_installed_command_runs() -> None:
    command = Path(sys.executable).with_name("fastweights")
    output = subprocess.run([command, "--version"], check=True, capture_output=True, text=True).stdout
    assert output == f"fastweights {fastweights.__version__}\n"


@pytest.mark.parametrize(("typed", "meant"), [("dmeo", "demo"), ("doktor", "doctor"), ("lst", "list")])
def test_a_misspelled_command_gets_a_suggestion(typed: str, meant: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, output, error = run([typed], capsys)
    assert (code, output) == (2, "")
    assert error.count("\n") == 1
    assert f"{typed!r}; did you mean {meant!r}?" in error


def test_an_unknown_command_gets_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run(["xyzzy"], capsys)
    assert code == 2
    assert "did you mean" not in error
    assert error.endswith(f"possible: {', '.join(COMMANDS)}\n")


def test_no_command_gets_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run([], capsys)
    assert code == 2
    assert all(name in error for name in COMMANDS)


def test_a_misspelled_option_gets_a_suggestion(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, error = run(["demo", "--oot", "x"], capsys)
    assert (code, output) == (2, "")
    assert "--oot" in error
    assert "--out PATH" in error


def test_list_shows_every_component_with_its_place_in_the_paper(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    code, output, _ = run(["list"], capsys)
    assert code == 0
    classes = [*FEATURE_MAPS.items(), *UPDATE_RULES.items(), *NORMALISATIONS.items()]
    for name, component in classes:
        assert component.__name__ in output
        assert vars(component)["equations"] in output, name
    words = " ".join(output.split())
    assert re.search(r" dpfp φ\(x\) = [^;]* DPFP\(nu=1\), Eq. 33-37 of the paper ", words)
    assert re.search(r" delta W ← W \+ β \(v - W k\) ⊗ k DeltaRule\([^)]*\), Eq. 20-25 of the paper ", words)
    assert "ProgrammerRule(activation='tanh'), Eq. 1-3 of the paper; runs step by step" in words
    assert "Eq. 19, 26-28 of the paper" in words
    assert "small or medium or cpu or cpu-long transformer, transformer-nopos, transformer-relative," in words
    assert max(map(len, output.splitlines())) <= 80


def test_doctor_says_what_is_there_and_what_is_taken(capsys: pytest.CaptureFixture[str]) -> None:
    code, output, _ = run(["doctor"], capsys)
    assert code == 0
    for name in ("python", "torch", "numpy", "safetensors", "fastweights", "processor", "threads"):
        assert name in output
    for name, status in fastweights.backends().items():
        expected = f"{name} +available" if status.available else f"{name} +missing +{re.escape(status.reason)}"
        assert re.search(expected, output), name
    assert output.count("auto takes it for") >= 1


@pytest.mark.slow
def test_demo_shows_the_stale_value_and_makes_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "folder"
    code, output, _ = run(["demo", "--out", str(folder)], capsys)
    assert code == 0
    assert re.search(r"blue +drop +fish +drop \+ fish \(.*\) +fish \(0% off\)", output)
    assert str(folder / "memory.png") in output
    assert (folder / "memory.png").read_bytes().startswith(b"\x89PNG")
    assert f"The report is in {folder / 'report.html'}" in output
    page = (folder / "report.html").read_text(encoding="utf-8")
    # The memory overwritten, pictures in a memory, capacity, and what each rule learns.
    assert page.count("data:image/") == 4
    assert re.search(r"outperforms all other variants.* holds", output)


@pytest.mark.parametrize(
    "error", [ValueError("nu must be\nat least 1"), OSError("disk full"), FloatingPointError("overflow")]
)
def test_a_users_mistake_is_one_line(
    error: Exception, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setitem(COMMANDS, "doctor", fail)
    code, output, message = run(["doctor"], capsys)
    assert (code, output) == (1, "")
    assert message == "error: " + str(error).replace("\n", " ") + "\n"


def test_under_torchrun_the_line_reaches_its_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError, ProcessFailure

    path = tmp_path / "error.json"
    monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", str(path))
    with pytest.raises(SystemExit):
        main(["run", "capacity", "--set", "nonsense=1"])
    line = capsys.readouterr().err.strip()
    assert line.startswith("error: --set: unknown field 'nonsense'")
    report = str(ChildFailedError("fastweights", {0: ProcessFailure(0, 1, 1, str(path))}))
    assert f"traceback : {line}" in report


def test_an_error_of_the_program_itself_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("a bug")

    monkeypatch.setitem(COMMANDS, "doctor", fail)
    with pytest.raises(RuntimeError, match="a bug"):
        main(["doctor"])


def test_a_traceback_can_be_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise ValueError("where from?")

    monkeypatch.setitem(COMMANDS, "doctor", fail)
    monkeypatch.setenv("FASTWEIGHTS_TRACEBACK", "1")
    with pytest.raises(ValueError, match="where from"):
        main(["doctor"])


def test_a_folder_that_is_a_file_is_one_clear_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    taken = tmp_path / "taken"
    taken.write_text("")
    code, _, error = run(["demo", "--out", str(taken)], capsys)
    assert code == 1
    assert error == f"error: {taken}: expected a folder, this is a file\n"


def test_interrupting_is_quiet(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    monkeypatch.setitem(COMMANDS, "doctor", interrupt)
    assert run(["doctor"], capsys) == (130, "", "interrupted\n")


def test_a_reader_who_has_had_enough_is_no_error() -> None:
    program = (
        "from fastweights.cli import COMMANDS, main\n"
        "def write() -> None:\n    print('the first line', flush=True)\n"
        "COMMANDS['doctor'] = write\nmain(['doctor'])"
    )
    started = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert started.stdout is not None
    started.stdout.close()
    _, complaints = started.communicate()
    assert complaints == b""
    assert started.returncode == 0


@pytest.mark.parametrize("error", [MemoryError("no room"), RuntimeError("DefaultCPUAllocator: can't allocate\nmore")])
def test_too_little_memory_is_one_line(
    error: Exception, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setitem(COMMANDS, "doctor", fail)
    with pytest.raises(SystemExit):
        main(["doctor"])
    assert capsys.readouterr().err == f"error: not enough memory for this; {str(error).splitlines()[0]}\n"


def test_another_error_of_the_program_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail() -> None:
        raise RuntimeError("a mistake of ours")

    monkeypatch.setitem(COMMANDS, "doctor", fail)
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        main(["doctor"])


def test_it_is_started_as_a_module() -> None:
    command = [sys.executable, "-m", "fastweights", "--version"]
    assert subprocess.run(command, check=True, capture_output=True, text=True).stdout.startswith("fastweights ")
