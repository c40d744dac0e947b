"""The folder of records, and threads."""

from pathlib import Path

import pytest
import torch

from fastweights.cli.results import results_folder, set_threads


def test_results_go_into_the_repository_only_from_inside_it(tmp_path: Path) -> None:
    assert results_folder(None) == Path("fastweights-results")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "another"\n')
    assert results_folder(None) == Path("fastweights-results")
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "fastweights"\n')
    assert results_folder(None) == Path("results")
    assert results_folder(Path("named")) == Path("named")


def test_threads_are_set_if_they_are_given() -> None:
    before = torch.get_num_threads()
    set_threads(None)
    assert torch.get_num_threads() == before
    with pytest.raises(ValueError, match="threads: expected at least 1, got 0"):
        set_threads(0)
    try:
        set_threads(2)
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


def test_more_threads_than_a_machine_can_start_are_refused() -> None:
    with pytest.raises(ValueError, match=r"threads: expected at most \d+ on this machine, got 100000"):
        set_threads(100_000)
