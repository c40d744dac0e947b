import re

import pytest

from fastweights.reporting.terminal import print_table


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
