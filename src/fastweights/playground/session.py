"""What a user has done: a value that a file can hold, that one can step back and forth in, and that replays itself.

The memories themselves are not part of it: they are what the library makes of the writes (`outcome.py`). So another
rule, map or similarity shows at once what the same writes would have done.
"""

import math
from dataclasses import dataclass, replace

from fastweights.playground.choices import MemoryChoice
from fastweights.playground.keys import COLOURS
from fastweights.playground.pictures import PIXELS, Picture

MOST_WRITES = 64
FEWEST_MEMORIES, MOST_MEMORIES = 2, 4


@dataclass(frozen=True)
class Write:
    """A picture under a key, with write strength β, after the memory has decayed to `decay` times itself."""

    key: str
    picture: Picture
    strength: float = 1.0
    decay: float = 1.0

    def __post_init__(self) -> None:
        if self.key not in COLOURS:
            raise ValueError(f"key: there is no {self.key!r}; possible: {', '.join(COLOURS)}")
        if len(self.picture) != PIXELS or not all(type(pixel) is int and pixel in (0, 1) for pixel in self.picture):
            raise ValueError(f"picture: expected {PIXELS} pixels that are 0 or 1")
        for name in ("strength", "decay"):
            _refuse_beyond(name, getattr(self, name))


@dataclass(frozen=True)
class Session:
    """The memories side by side, the similarity of the keys, all writes, and after how many of them we are."""

    memories: tuple[MemoryChoice, ...] = (MemoryChoice("sum"), MemoryChoice("delta"))
    similarity: float = 0.0
    writes: tuple[Write, ...] = ()
    now: int = 0

    def __post_init__(self) -> None:
        if not FEWEST_MEMORIES <= len(self.memories) <= MOST_MEMORIES:
            raise ValueError(f"memories: expected {FEWEST_MEMORIES} to {MOST_MEMORIES}, got {len(self.memories)}")
        if len(self.writes) > MOST_WRITES:
            raise ValueError(f"writes: at most {MOST_WRITES}, got {len(self.writes)}; step back to go on from there")
        if type(self.now) is not int or not 0 <= self.now <= len(self.writes):
            raise ValueError(f"now: expected a number of writes from 0 to {len(self.writes)}, got {self.now!r}")
        _refuse_beyond("similarity", self.similarity)

    @property
    def past(self) -> tuple[Write, ...]:
        """The writes up to now."""
        return self.writes[: self.now]

    def write(self, write: Write) -> "Session":
        """After one more write; what had been undone is forgotten."""
        return replace(self, writes=(*self.past, write), now=self.now + 1)

    def at(self, now: int) -> "Session":
        """After the first `now` writes; the later ones are kept."""
        return replace(self, now=now)

    def back(self) -> "Session":
        """One write earlier; at the beginning, the same."""
        return self.at(max(self.now - 1, 0))

    def forward(self) -> "Session":
        """One write later; at the end, the same."""
        return self.at(min(self.now + 1, len(self.writes)))

    def stored(self) -> dict[str, Picture]:
        """What was written last under each key."""
        return {write.key: write.picture for write in self.past}


def _refuse_beyond(name: str, value: float) -> None:
    if type(value) not in (int, float) or not math.isfinite(value) or not 0 <= value <= 1:
        raise ValueError(f"{name}: expected a number from 0 to 1, got {value!r}")
