"""Each command runs in a folder of its own: what it leaves there should not be left in the repository."""

from pathlib import Path

import pytest

from tiny_language_model import write_book


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    """A text to train on."""
    return write_book(tmp_path)
