"""`fastweights play`: one clear line for what cannot be; the page itself is tested in a browser (tests/playground)."""

import socket
import sys
from pathlib import Path

import pytest

from command import run


def test_without_gradio_one_line_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("fastweights.playground.page")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "gradio", None)
    code, _, error = run(["play"], capsys)
    assert code == 1
    assert error.count("\n") == 1
    assert "pip install 'fastweights[play]'" in error


def test_a_folder_that_is_no_run_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, error = run(["play", str(tmp_path / "nowhere")], capsys)
    assert code == 1
    assert "no such folder" in error


def test_a_port_that_is_taken_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        code, _, error = run(["play", "--port", str(port)], capsys)
    assert code == 1
    assert error == f"error: port: {port} is taken (Address already in use); choose another one with --port\n"


@pytest.mark.parametrize("port", ["0", "65536"])
def test_there_are_no_such_ports(port: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, error = run(["play", "--port", port], capsys)
    assert code == 1
    assert "from 1 to 65535" in error
