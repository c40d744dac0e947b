"""Tokenised text on disk: written once, whole or not at all, checked when opened, and read through a memory map.

CACHE/KEY/train.tokens  valid.tokens  test.tokens     little-endian token ids, 2 bytes each if they fit, else 4
CACHE/KEY/vocabulary.json
CACHE/KEY/manifest.json                               size and SHA-256 of each of the files above
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastweights.data.cache_folder import checked_folder
from fastweights.data.text.tokenizers import Vocabulary
from fastweights.files import FILE_SYSTEM

FORMAT = 1
SPLITS = ("train", "valid", "test")
BLOCK = 1 << 20

TokenArray = NDArray[np.unsignedinteger[Any]]


def write_cache(folder: Path, vocabulary: Vocabulary, splits: Mapping[str, Iterable[str]]) -> dict[str, Any]:
    """Encode the lines of every split into an empty folder, and describe it for the manifest."""
    dtype = np.dtype("<u2" if len(vocabulary) <= 1 << 16 else "<u4")
    for split, lines in splits.items():
        _write_tokens(folder / f"{split}.tokens", vocabulary, lines, dtype)
    FILE_SYSTEM.write(folder / "vocabulary.json", vocabulary.to_json().encode())
    return {"format": FORMAT, "dtype": dtype.str}


def open_cache(folder: Path) -> tuple[Vocabulary, dict[str, TokenArray]]:
    """The vocabulary and the memory-mapped splits of a cache, after every byte of it has been checked."""
    with checked_folder(folder) as manifest:
        dtype = np.dtype(manifest["dtype"])
        if manifest["format"] != FORMAT or dtype.str not in ("<u2", "<u4"):
            raise ValueError(f"unknown format {manifest['format']!r}")
        if manifest["files"].keys() != {*(f"{split}.tokens" for split in SPLITS), "vocabulary.json"}:
            raise ValueError("the manifest names other files")
        vocabulary = Vocabulary.from_json((folder / "vocabulary.json").read_text(encoding="utf-8"))
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
