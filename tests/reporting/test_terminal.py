import re

import pytest

from fastweights.reporting.terminal import print_entries, print_table


def test_a_pipe_gets_plain_aligned_columns(capsys: pytest.CaptureFixture[str]) -> None:
    print_table("Title", ("name", "note"), [("a", "x" * 150), ("longer", "[not markup]")])
    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert lines == ["Title", " name    note", " a       " + "x" * 150, " longer  [not markup]", ""]


def test_a_terminal_gets_a_drawn_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "40")
    print_table("Title", ("name", "note"), [("a", "word " * 12)])
    output = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out)
    assert "──" in output
    assert max(len(line) for line in output.splitlines()) <= 40


@pytest.mark.parametrize("width", [80, 120])
def test_entries_are_folded_beside_their_names(
    width: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(width))
    long_name = "a name that is longer than the margin"
    print_entries("Title", [("short", "one two " * 30, "three"), (long_name, "four-" * 3)])
    title, *lines, last = capsys.readouterr().out.splitlines()
    assert (title, last) == ("Title", "")
    assert max(map(len, lines)) <= width
    assert lines[0].startswith("  short             one two")
    assert lines[-3:] == [" " * 20 + "three", f"  {long_name}", " " * 20 + "four-four-four-"]
    assert " ".join(lines).split().count("two") == 30
