"""A command of the program as a user meets it."""

import pytest

from fastweights.cli import main


def run(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    """Exit code, standard output and standard error of one command."""
    code = 0
    try:
        main(arguments)
    except SystemExit as stop:
        code = int(stop.code or 0)
    output, error = capsys.readouterr()
    return code, output, error
