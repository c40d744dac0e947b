"""Tokenised text on disk: written once, whole or not at all, checked when opened, and read through a memory map.

CACHE/KEY/train.tokens  valid.tokens  test.tokens     little-endian numbers, 2 bytes each if they fit, else 4
CACHE/KEY/vocabulary.json
CACHE/KEY/manifest.json                               size and SHA-256 of each of the files above
"""

import hashlib
import json
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastweights.data.text.tokenizers import Vocabulary

FORMAT = 1
SPLITS = ("train", "valid", "test")
BLOCK = 1 << 20

TokenArray = NDArray[np.unsignedinteger[Any]]


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


def write_cache(cache: Path, key: str, vocabulary: Vocabulary, splits: Mapping[str, Iterable[str]]) -> Path:
    """Encode the lines of every split into `cache/key`, which appears only when it is complete."""
    folder = cache / key
    with _partial_folder(cache, key) as partial:
        try:
            dtype = np.dtype("<u2" if len(vocabulary) <= 1 << 16 else "<u4")
            for split, lines in splits.items():
                _write_tokens(partial / f"{split}.tokens", vocabulary, lines, dtype)
            _write(partial / "vocabulary.json", vocabulary.to_json().encode())
            names = [*(f"{split}.tokens" for split in splits), "vocabulary.json"]
            files = {
                name: {"bytes": (partial / name).stat().st_size, "sha256": digest(partial / name)} for name in names
            }
            manifest = {"format": FORMAT, "dtype": dtype.str, "files": files}
            _write(partial / "manifest.json", json.dumps(manifest, indent=1).encode())
            _sync_folder(partial)
            try:
                partial.rename(folder)
            except OSError:
                # Another process finished the same cache first; its content is the same.
                if not (folder / "manifest.json").exists():
                    raise
            _sync_folder(cache)
        except OSError as error:
            if error.strerror is None:
                raise
            raise OSError(
                f"{folder}: the cache could not be written ({error.strerror}); nothing was left behind"
            ) from error
    return folder


def open_cache(folder: Path) -> tuple[Vocabulary, dict[str, TokenArray]]:
    """The vocabulary and the memory-mapped splits of a cache, after every byte of it has been checked."""
    try:
        manifest = json.loads((folder / "manifest.json").read_bytes())
        dtype, files = np.dtype(manifest["dtype"]), dict(manifest["files"])
        if manifest["format"] != FORMAT or dtype.str not in ("<u2", "<u4"):
            raise ValueError(f"unknown format {manifest['format']!r}")
        if files.keys() != {*(f"{split}.tokens" for split in SPLITS), "vocabulary.json"}:
            raise ValueError("the manifest names other files")
        for name, expected in files.items():
            if (folder / name).stat().st_size != expected["bytes"] or digest(folder / name) != expected["sha256"]:
                raise ValueError(f"{name} is not what was written")
        vocabulary = Vocabulary.from_json((folder / "vocabulary.json").read_text(encoding="utf-8"))
    except (ValueError, KeyError, TypeError, FileNotFoundError, RecursionError) as error:
        raise ValueError(f"{folder}: corrupted cache ({error}); delete this folder and it is built again") from error
    return vocabulary, {split: np.memmap(folder / f"{split}.tokens", dtype=dtype, mode="r") for split in SPLITS}


def digest(path: Path) -> str:
    """SHA-256 of a file's content."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


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


def _write_tokens(path: Path, vocabulary: Vocabulary, lines: Iterable[str], dtype: np.dtype[Any]) -> None:
    with path.open("wb") as file:
        numbers: list[int] = []
        for line in lines:
            numbers += vocabulary.encode(line)
            if len(numbers) >= BLOCK:
                file.write(np.array(numbers, dtype=dtype).tobytes())
                numbers = []
        file.write(np.array(numbers, dtype=dtype).tobytes())
        file.flush()
        os.fsync(file.fileno())


def _write(path: Path, content: bytes) -> None:
    with path.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
