"""The kernels run here in Triton's interpreter, on CPU tensors: `make test-gpu`."""

import os
from importlib.util import find_spec
from pathlib import Path

import pytest

HERE = Path(__file__).parent
MISSING = (
    "Triton is not installed: make test-gpu"
    if find_spec("triton") is None
    else "needs TRITON_INTERPRET=1 from the start: make test-gpu"
    if os.environ.get("TRITON_INTERPRET") != "1"
    else None
)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Modules here import Triton; where it is missing, one of them says so for all."""
    if find_spec("triton") is None and collection_path.suffix == ".py":
        return collection_path.name not in ("conftest.py", "test_availability.py")
    return None


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if MISSING and HERE in item.path.parents and item.path.name != "test_availability.py":
            item.add_marker(pytest.mark.skip(reason=MISSING))
