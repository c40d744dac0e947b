"""Every pair of options in the ordinary run, every combination of them among the slow tests."""

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import combinations
from typing import Any, TypeVar

import pytest

Choice = TypeVar("Choice")
Options = Callable[[Choice], Sequence[Hashable]]


def every_pair(choices: Iterable[Choice], options: Options[Choice]) -> list[Choice]:
    """A few of the choices, in which any two options that go together are found together."""
    left = {choice: _pairs(options(choice)) for choice in choices}
    taken, seen = [], set[Hashable]()
    # Those with most that is new come first: almost as few as if the best were looked for every time.
    for wanted in range(max(map(len, left.values()), default=0), 0, -1):
        for choice, pairs in left.items():
            if len(pairs - seen) >= wanted:
                taken.append(choice)
                seen |= pairs
    return taken


def pairs_first(choices: Sequence[Choice], options: Options[Choice]) -> list[Any]:
    """All choices as parameters of a test; those that add no pair of options are slow."""
    ordinary = set(every_pair(choices, options))
    return [choice if choice in ordinary else pytest.param(choice, marks=pytest.mark.slow) for choice in choices]


def _pairs(options: Sequence[Hashable]) -> set[Hashable]:
    return set(combinations(enumerate(options), 2))
