"""A session as a file: all of it comes back, and what was broken or made by a stranger is one clear line."""

import json
from typing import Any

import pytest

from fastweights.playground import session_file
from fastweights.playground.choices import MemoryChoice
from fastweights.playground.pictures import named
from fastweights.playground.session import MOST_WRITES, Session, Write

WRITE = Write("green", named("7"), 0.25, 0.5)
SESSION = Session((MemoryChoice(), MemoryChoice("sum", "dpfp-2", "attention")), 0.4, (WRITE,) * 3, 2)


def changed(**changes: Any) -> bytes:
    return json.dumps(json.loads(session_file.to_bytes(SESSION)) | changes).encode()


def test_everything_comes_back() -> None:
    assert session_file.from_bytes(session_file.to_bytes(SESSION)) == SESSION


def test_the_largest_session_is_small_enough() -> None:
    largest = Session(writes=(Write("purple", named("0"), 1 / 3, 2 / 3),) * MOST_WRITES)
    assert len(session_file.to_bytes(largest)) < session_file.MOST_BYTES


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON"),
        (b"\x80\x04\x95", "not JSON"),
        (b"[" * 60_000, "not JSON"),
        (b"[]", "not a session of this page"),
        (b'{"format": "other"}', "not a session of this page"),
        (b" " * (session_file.MOST_BYTES + 1), "at most 65,536"),
        (changed(memories=[["delta", "identity"]] * 2), "expected 3 names"),
        (changed(memories=[["delta", "identity", "l3"]] * 2), "unknown name 'l3'"),
        (changed(memories=[]), "expected 2 to 4, got 0"),
        (changed(memories="delta"), "memories: expected a list"),
        (changed(similarity="1"), "similarity: expected a number"),
        (changed(similarity=float("nan")), "similarity: expected a number"),
        (changed(now=7), "now: expected a number of writes from 0 to 3, got 7"),
        (changed(now=True), "now: expected"),
        (changed(writes=[["green", "1" * 49, 1]]), "expected key, picture, strength and decay"),
        (changed(writes=[["green", "2" * 49, 1, 1]], now=0), "49 times 0 or 1"),
        (changed(writes=[["green", "1" * 49, 1e400, 1]], now=0), "strength: expected a number"),
        (changed(writes=[["green", "1" * 49, 1, None]], now=0), "decay: expected a number"),
        (changed(writes=[["pink", "1" * 49, 1, 1]], now=0), "there is no 'pink'"),
        (b'{"format": "fastweights-playground-1", "memories": [], "writes": []}', "does not say"),
    ],
)
def test_a_broken_file_is_one_line(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message) as error:
        session_file.from_bytes(content)
    assert "\n" not in str(error.value)
