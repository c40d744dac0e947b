"""Losses are the same to the last bit only with the same number of threads."""

from collections.abc import Iterator

import pytest
import torch


# For whole modules: a fixture of a module that trains comes before those of its tests.
@pytest.fixture(autouse=True, scope="module")
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)
