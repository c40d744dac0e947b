"""Files that are whole or absent, and locks: the one place that replaces or locks files of runs, records and caches."""

import hashlib
import json
import os
import secrets
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

Json = dict[str, Any]

LARGEST_JSON = 16_000_000
"""Bytes; nothing that this package writes comes near."""


class FileSystem:
    """The operations that a checkpoint is made of, each durable when it returns; tests replace it by one that fails."""

    def make_folder(self, path: Path) -> None:
        """Create a new, empty folder."""
        path.mkdir(parents=True)

    def write(self, path: Path, content: bytes) -> None:
        """Write a file and flush it to the disk."""
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def sync_folder(self, path: Path) -> None:
        """Flush a folder, so that new, renamed and removed entries survive a power cut."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, old: Path, new: Path) -> None:
        """Replace one name by another in one step."""
        old.replace(new)

    def remove_folder(self, path: Path) -> None:
        """Remove a folder and everything in it."""
        shutil.rmtree(path)


FILE_SYSTEM = FileSystem()


def write_whole(path: Path, content: str | bytes, file_system: FileSystem = FILE_SYSTEM) -> None:
    """Write a whole file or nothing: a reader or a crash never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        file_system.write(partial, content.encode() if isinstance(content, str) else content)
        file_system.rename(partial, path)
    except OSError:
        partial.unlink(missing_ok=True)
        raise
    file_system.sync_folder(path.parent)


def to_json(value: Any) -> str:
    """Readable JSON text; a NaN or an infinity is an error, because JSON has neither."""
    return json.dumps(value, indent=1, allow_nan=False) + "\n"


def read_json(path: Path) -> Json:
    """Read one JSON object from a file of bounded size; a ValueError names a file that holds anything else."""
    try:
        if path.stat().st_size > LARGEST_JSON:
            raise ValueError(f"{path}: corrupted, larger than {LARGEST_JSON} bytes")
        value = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(f"{path}: corrupted, not valid JSON ({type(error).__name__})") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}: corrupted, expected an object")
    return value


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@contextmanager
def exclusive(folder: Path) -> Iterator[int | None]:
    """Hold the lock of a folder: yields None, or the number of the process that already holds it (0 if unknown).

    The system releases the lock when its process ends, however that ends, so there are no stale locks.
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / ".lock"
    lock = FileLock(path)
    try:
        lock.acquire(blocking=False)
    except Timeout:
        yield _process_number(path)
        return
    try:
        # The number is only for the message of a process that finds the lock taken.
        with suppress(OSError):
            path.write_text(f"{os.getpid()}\n", encoding="utf-8")
        yield None
    finally:
        lock.release()


@contextmanager
def new_folder(path: Path) -> Iterator[Path | None]:
    """Fill a folder that appears only when it is complete: yields an empty one beside it, or None if it is there.

    A process that wants the same folder waits for the lock and then finds the folder complete.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        lock = FileLock(path.with_name(f".{path.name}.lock"))
        lock.acquire()
    except OSError as error:
        raise OSError(f"{path.parent}: cannot write here ({error.strerror}); name another folder") from error
    try:
        if path.exists():
            yield None
            return
        # Whoever holds the lock knows that all partial folders are abandoned.
        for abandoned in path.parent.glob(f"{path.name}.partial-*"):
            shutil.rmtree(abandoned, ignore_errors=True)
        # Not mkdtemp, whose folders nobody else may read.
        partial = path.with_name(f"{path.name}.partial-{secrets.token_hex(8)}")
        partial.mkdir()
        try:
            yield partial
            FILE_SYSTEM.sync_folder(partial)
            FILE_SYSTEM.rename(partial, path)
            FILE_SYSTEM.sync_folder(path.parent)
        except OSError as error:
            if error.strerror is None:
                raise
            raise OSError(f"{path}: could not be written ({error.strerror}); nothing was left behind") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)
    finally:
        lock.release()


def _process_number(path: Path) -> int:
    try:
        return int(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return 0
