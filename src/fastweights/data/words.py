"""Words over a finite group: the answer at every step is the product of all elements so far, a state to be tracked.

Words over Z₂ are parity, over Z_n counting modulo n; those over S₅ are hard for any model that cannot compose states.
"""

import itertools
from dataclasses import dataclass
from functools import cache
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from fastweights.data.marked import MarkedSteps

Letters = Literal["all", "swaps", "cycles"]
Permutation = tuple[int, ...]


@dataclass(frozen=True)
class GroupWords:
    """Words over the cyclic group Z_n or the symmetric group S_n: `group` is the letter and n, such as z2 or s3.

    Letters of a word are all elements of the group or, for S_n, the exchanges of two neighbours ("swaps") or of three
    in a circle ("cycles"); with these two, a letter may also change nothing.
    """

    group: str = "z2"
    letters: Letters = "all"
    length: int = 40

    def __post_init__(self) -> None:
        kind, order = self.group[:1], self.group[1:]
        if kind not in ("z", "s") or not order.isdigit() or not 2 <= int(order) <= (5 if kind == "s" else 100):
            raise ValueError(f"group: expected z2 to z100 or s2 to s5, got {self.group!r}")
        if self.letters not in get_args(Letters):
            raise ValueError(f"letters: expected one of {', '.join(get_args(Letters))}, got {self.letters!r}")
        if self.letters != "all" and (kind != "s" or (self.letters == "cycles" and int(order) < 3)):
            raise ValueError(f"letters: the group {self.group!r} has no {self.letters}; possible: all")
        if self.length < 1:
            raise ValueError(f"length: expected at least 1 step, got {self.length}")

    @property
    def elements(self) -> tuple[Permutation, ...]:
        """Every element as a permutation, the one that changes nothing first."""
        return _elements(self.group)

    @property
    def alphabet(self) -> tuple[int, ...]:
        """The elements that words are made of, by their index."""
        if self.letters == "all":
            return tuple(range(len(self.elements)))
        one, moved = list(self.elements[0]), 2 if self.letters == "swaps" else 3
        moves = ([*one[:i], *one[i + 1 : i + moved], i, *one[i + moved :]] for i in range(len(one) - moved + 1))
        return (0, *(self.elements.index(tuple(move)) for move in moves))

    @property
    def num_tokens(self) -> int:
        """How many different letters there are."""
        return len(self.alphabet)

    @property
    def num_classes(self) -> int:
        """How many states there are to track."""
        return len(self.elements)

    def draw(self, rows: int, times: int, random: np.random.Generator) -> MarkedSteps:
        """Random words of `times` the length; every step asks for the product so far.

        The group of a step counts how many whole lengths stand before it: in group 0 are those of trained length.
        """
        letters = random.integers(self.num_tokens, size=(rows, times * self.length))
        products, state = np.empty_like(letters), np.zeros(rows, dtype=np.int64)
        table, alphabet = _table(self.group), np.array(self.alphabet)
        for step in range(letters.shape[1]):
            state = table[state, alphabet[letters[:, step]]]
            products[:, step] = state
        groups = np.broadcast_to(np.arange(letters.shape[1]) // self.length, letters.shape)
        return MarkedSteps.of(letters, products, groups.copy())


@cache
def _elements(group: str) -> tuple[Permutation, ...]:
    order = int(group[1:])
    if group[0] == "s":
        return tuple(itertools.permutations(range(order)))
    return tuple(tuple((i + shift) % order for i in range(order)) for shift in range(order))


@cache
def _table(group: str) -> NDArray[np.int64]:
    """[a, b]: the element that does a first and b after it."""
    elements = _elements(group)
    index = {element: i for i, element in enumerate(elements)}
    return np.array([[index[tuple(b[i] for i in a)] for b in elements] for a in elements])
