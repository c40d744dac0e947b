"""A folder of derived files in the cache: written whole or not at all, checked byte by byte when opened.

CACHE/KEY/…                  the files
CACHE/KEY/manifest.json      their sizes and SHA-256, and what describes them
"""

import json
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fastweights.files import FILE_SYSTEM, new_folder, sha256_of

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
    with new_folder(cache / key) as partial:
        if partial is not None:
            description = write_files(partial)
            files = {
                path.name: {"bytes": path.stat().st_size, "sha256": sha256_of(path)}
                for path in sorted(partial.iterdir())
            }
            FILE_SYSTEM.write(partial / MANIFEST, json.dumps({**description, "files": files}, indent=1).encode())
    return cache / key


@contextmanager
def checked_folder(folder: Path) -> Iterator[dict[str, Any]]:
    """The manifest of a folder after every byte of it has been checked; what the reader finds wrong is corruption."""
    try:
        manifest = dict(json.loads((folder / MANIFEST).read_bytes()))
        for name, expected in dict(manifest["files"]).items():
            if (folder / name).stat().st_size != expected["bytes"] or sha256_of(folder / name) != expected["sha256"]:
                raise ValueError(f"{name} is not what was written")
        yield manifest
    except (ValueError, KeyError, TypeError, FileNotFoundError, RecursionError) as error:
        raise ValueError(f"{folder}: corrupted cache ({error}); delete this folder and it is built again") from error
