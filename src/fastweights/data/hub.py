"""Data that the `datasets` package downloads by name."""

from collections.abc import Callable
from typing import Any


def dataset_loader(name: str) -> Callable[..., Any]:
    """`datasets.load_dataset`; a ValueError says what to do where the package is missing."""
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise ValueError(
            f"{name}: downloading it needs the datasets package (pip install 'fastweights[data]'); "
            "or give the folder that holds its files"
        ) from error
    found: Callable[..., Any] = load_dataset
    return found
