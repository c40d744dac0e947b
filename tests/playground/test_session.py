"""Writing, undoing and redoing: every step is a value."""

from dataclasses import replace

import pytest

from fastweights.playground.choices import MemoryChoice
from fastweights.playground.pictures import named
from fastweights.playground.session import MOST_WRITES, Session, Write

HEART, FISH = Write("red", named("heart")), Write("red", named("fish"), 0.5, 0.9)


def test_back_and_forth_gives_the_same_values() -> None:
    one = Session().write(HEART)
    two = one.write(FISH)
    assert two.back().past == one.past == (HEART,)
    assert two.back().forward() == two
    assert two.at(0).past == ()
    assert two.at(0).back() == two.at(0)
    assert two.forward() == two
    assert two.stored() == {"red": FISH.picture}
    assert two.back().stored() == {"red": HEART.picture}


def test_a_write_forgets_what_was_undone() -> None:
    session = Session().write(HEART).write(FISH).back().write(replace(HEART, key="blue"))
    assert [write.key for write in session.writes] == ["red", "blue"]


def test_what_cannot_be_is_refused() -> None:
    full = Session(writes=(HEART,) * MOST_WRITES, now=MOST_WRITES)
    with pytest.raises(ValueError, match=f"at most {MOST_WRITES}"):
        full.write(HEART)
    assert full.back().write(FISH).now == MOST_WRITES
    with pytest.raises(ValueError, match="expected 2 to 4, got 1"):
        Session((MemoryChoice(),))
    with pytest.raises(ValueError, match="from 0 to 0, got 1"):
        Session().at(1)
    with pytest.raises(ValueError, match="similarity"):
        Session(similarity=float("nan"))
    with pytest.raises(ValueError, match="strength: expected a number from 0 to 1, got 10"):
        replace(HEART, strength=10)
    with pytest.raises(ValueError, match="no 'pink'"):
        replace(HEART, key="pink")
    with pytest.raises(ValueError, match="49 pixels"):
        replace(HEART, picture=(1, 0))
