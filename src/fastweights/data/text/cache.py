"""Tokenised text on disk: written once, whole or not at all, checked when opened, and read through a memory map.

CACHE/KEY/train.tokens  valid.tokens  test.tokens     little-endian token ids, 2 bytes each if they fit, else 4
CACHE/KEY/vocabulary.json
CACHE/KEY/manifest.json                               size and SHA-256 of each of the files above
"""

import json
import os
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastweights.data.text.tokenizers import Vocabulary
from fastweights.files import FILE_SYSTEM, sha256_of

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


def write_cache(folder: Path, vocabulary: Vocabulary, splits: Mapping[str, Iterable[str]]) -> None:
    """Encode the lines of every split into an empty folder."""
    dtype = np.dtype("<u2" if len(vocabulary) <= 1 << 16 else "<u4")
    for split, lines in splits.items():
        _write_tokens(folder / f"{split}.tokens", vocabulary, lines, dtype)
    FILE_SYSTEM.write(folder / "vocabulary.json", vocabulary.to_json().encode())
    names = [*(f"{split}.tokens" for split in splits), "vocabulary.json"]
    files = {name: {"bytes": (folder / name).stat().st_size, "sha256": sha256_of(folder / name)} for name in names}
    manifest = {"format": FORMAT, "dtype": dtype.str, "files": files}
    FILE_SYSTEM.write(folder / "manifest.json", json.dumps(manifest, indent=1).encode())


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
            if (folder / name).stat().st_size != expected["bytes"] or sha256_of(folder / name) != expected["sha256"]:
                raise ValueError(f"{name} is not what was written")
        vocabulary = Vocabulary.from_json((folder / "vocabulary.json").read_text(encoding="utf-8"))
    except (ValueError, KeyError, TypeError, FileNotFoundError, RecursionError) as error:
        raise ValueError(f"{folder}: corrupted cache ({error}); delete this folder and it is built again") from error
    return vocabulary, {split: np.memmap(folder / f"{split}.tokens", dtype=dtype, mode="r") for split in SPLITS}


def _write_tokens(path: Path, vocabulary: Vocabulary, lines: Iterable[str], dtype: np.dtype[Any]) -> None:
    with path.open("wb") as file:
        token_ids: list[int] = []
        for line in lines:
            token_ids += vocabulary.encode(line)
            if len(token_ids) >= BLOCK:
                file.write(np.array(token_ids, dtype=dtype).tobytes())
                token_ids = []
        file.write(np.array(token_ids, dtype=dtype).tobytes())
        file.flush()
        os.fsync(file.fileno())
