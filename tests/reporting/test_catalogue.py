from dataclasses import dataclass
from typing import ClassVar

from fastweights.reporting import catalogue


@dataclass(frozen=True)
class Part:
    size: int = 2
    colour: str = "red"


@dataclass(frozen=True)
class Example:
    """φ(x) = a x
    + b.

    Words that are not part of the formula.
    """

    needed: int
    kind: str = "exp"
    part: Part = Part(size=3)

    equations: ClassVar[str] = "1, 2"


def test_an_entry_is_what_the_class_says_of_itself() -> None:
    assert catalogue.entry("example", Example, "; slow") == (
        "example",
        "φ(x) = a x + b",
        "Example(needed, kind='exp', part=Part(size=3)), Eq. 1, 2 of the paper; slow",
    )
