"""The folder of records that a command uses, and its threads."""

import os
import tomllib
from pathlib import Path


def results_folder(given: Path | None) -> Path:
    """The folder that was named; else results/ in the repository of this package, fastweights-results/ elsewhere."""
    if given is not None:
        return given
    project = Path("pyproject.toml")
    if project.is_file():
        with project.open("rb") as file:
            name = tomllib.load(file).get("project", {}).get("name")
        if name == "fastweights":
            return Path("results")
    return Path("fastweights-results")


def set_threads(threads: int | None) -> None:
    """Set the number of torch's threads; None leaves it as it is."""
    if threads is not None:
        if threads < 1:
            raise ValueError(f"threads: expected at least 1, got {threads}")
        # Thousands of threads end the process without a word.
        if threads > (most := max(64, 8 * (os.cpu_count() or 1))):
            raise ValueError(f"threads: expected at most {most} on this machine, got {threads}")
        import torch

        torch.set_num_threads(threads)
