"""What the tests of the C++ kernel share."""

from collections.abc import Callable, Iterator

import pytest

from instruction_sets import switch_to, usable


@pytest.fixture
def use() -> Iterator[Callable[[str], None]]:
    """Switches to an instruction set, and back to the best at the end."""
    yield switch_to
    usable()
