"""A session as a JSON file and back. What comes from a stranger is measured first and believed last."""

import json
from typing import Any

from fastweights.playground.choices import MemoryChoice
from fastweights.playground.pictures import PIXELS
from fastweights.playground.session import Session, Write

FORMAT = "fastweights-playground-1"
MOST_BYTES = 64 * 1024


def to_bytes(session: Session) -> bytes:
    """The whole session; a picture is a text of 0 and 1."""
    plain = {
        "format": FORMAT,
        "memories": [[memory.rule, memory.feature_map, memory.normalisation] for memory in session.memories],
        "similarity": session.similarity,
        "writes": [
            [write.key, "".join(map(str, write.picture)), write.strength, write.decay] for write in session.writes
        ],
        "now": session.now,
    }
    return json.dumps(plain, indent=1).encode()


def from_bytes(content: bytes) -> Session:
    """The session of a file; a ValueError says in one line what is wrong with it."""
    if len(content) > MOST_BYTES:
        raise ValueError(f"the file has {len(content):,} bytes; a session has at most {MOST_BYTES:,}")
    try:
        plain = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError("the file is not JSON") from error
    if not isinstance(plain, dict) or plain.get("format") != FORMAT:
        raise ValueError(f"the file is not a session of this page: it does not say {FORMAT!r}")
    if missing := {"similarity", "now"} - plain.keys():
        raise ValueError(f"the file cannot be restored: it does not say {sorted(missing)[0]!r}")
    try:
        return Session(
            tuple(MemoryChoice(*_texts(row, 3)) for row in _rows(plain, "memories")),
            plain["similarity"],
            tuple(_write(row) for row in _rows(plain, "writes")),
            plain["now"],
        )
    except ValueError as error:
        raise ValueError(f"the file cannot be restored: {error}") from error


def _rows(plain: dict[str, Any], name: str) -> list[Any]:
    rows = plain.get(name)
    if not isinstance(rows, list):
        raise ValueError(f"{name}: expected a list")
    return rows


def _texts(row: Any, count: int) -> list[str]:
    if not isinstance(row, list) or len(row) != count or not all(isinstance(cell, str) for cell in row):
        raise ValueError(f"expected {count} names, got {str(row)[:60]}")
    return row


def _write(row: Any) -> Write:
    if not isinstance(row, list) or len(row) != 4:
        raise ValueError(f"writes: expected key, picture, strength and decay, got {str(row)[:60]}")
    key, picture = _texts(row[:2], 2)
    if len(picture) != PIXELS or not set(picture) <= set("01"):
        raise ValueError(f"picture: expected {PIXELS} times 0 or 1")
    return Write(key, tuple(map(int, picture)), row[2], row[3])
