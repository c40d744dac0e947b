"""A tiny parallel corpus, and the cache of this test alone."""

from pathlib import Path

import pytest

from tiny_translation import write_pairs


@pytest.fixture
def pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return write_pairs(tmp_path)
