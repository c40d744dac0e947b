"""A folder of derived files in the cache: written whole or not at all, checked byte by byte when opened.

CACHE/KEY/…                  the files
CACHE/KEY/manifest.json      their sizes and SHA-256, and what describes them
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

MANIFEST = "manifest.json"


def default_cache() -> Path:
    """FASTWEIGHTS_CACHE, or `fastweights` in the user's cache folder."""
    if given := os.environ.get("FASTWEIGHTS_CACHE"):
        return Path(given)
    if given := os.environ.get("XDG_CACHE_HOME"):
        return Path(given) / "fastweights"
    try:
        return Path.home() / ".cache" / "fastweights"
    except RuntimeError:
        return Path(tempfile.gettempdir()) / f"fastweights-{os.getuid()}"


def write_folder(cache: Path, key: str, write_files: Callable[[Path], Mapping[str, Any]]) -> Path:
    """Make `cache/key`, which appears only when it is complete; `write_files` fills a folder and describes it."""
    folder = cache / key
    with _partial_folder(cache, key) as partial:
        try:
            description = write_files(partial)
            files = {
                path.name: {"bytes": path.stat().st_size, "sha256": digest(path)} for path in sorted(partial.iterdir())
            }
            write_file(partial / MANIFEST, json.dumps({**description, "files": files}, indent=1).encode())
            _sync_folder(partial)
            try:
                partial.rename(folder)
            except OSError:
                # Another process finished the same folder first; its content is the same.
                if not (folder / MANIFEST).exists():
                    raise
            _sync_folder(cache)
        except OSError as error:
            if error.strerror is None:
                raise
            raise OSError(
                f"{folder}: the cache could not be written ({error.strerror}); nothing was left behind"
            ) from error
    return folder


@contextmanager
def checked_folder(folder: Path) -> Iterator[dict[str, Any]]:
    """The manifest of a folder after every byte of it has been checked; what the reader finds wrong is corruption."""
    try:
        manifest = dict(json.loads((folder / MANIFEST).read_bytes()))
        for name, expected in dict(manifest["files"]).items():
            if (folder / name).stat().st_size != expected["bytes"] or digest(folder / name) != expected["sha256"]:
                raise ValueError(f"{name} is not what was written")
        yield manifest
    except (ValueError, KeyError, TypeError, FileNotFoundError, RecursionError) as error:
        raise ValueError(f"{folder}: corrupted cache ({error}); delete this folder and it is built again") from error


def digest(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_file(path: Path, content: bytes) -> None:
    """Write a file and wait until the disk has it."""
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


@contextmanager
def _partial_folder(cache: Path, key: str) -> Iterator[Path]:
    """A folder for an unfinished cache, gone in the end; what killed processes left of the same one is removed."""
    import fcntl  # not on every system

    with ExitStack() as stack:
        try:
            cache.mkdir(parents=True, exist_ok=True)
            lock = os.open(cache, os.O_RDONLY)
            stack.callback(os.close, lock)
            # All that write here share the lock, and the system ends it with the process: who has it alone finds only
            # what nobody owns. Where a folder cannot be locked, nothing is removed.
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                for left in cache.glob(f"{key}.partial-*"):
                    shutil.rmtree(left, ignore_errors=True)
            with suppress(OSError):
                fcntl.flock(lock, fcntl.LOCK_SH)
            partial = Path(tempfile.mkdtemp(prefix=f"{key}.partial-", dir=cache))
        except OSError as error:
            raise OSError(
                f"{cache}: cannot write the cache here ({error.strerror}); name another folder for it"
            ) from error
        stack.callback(shutil.rmtree, partial, ignore_errors=True)
        yield partial


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
