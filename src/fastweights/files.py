"""The few file operations that a checkpoint is made of, each durable when it returns."""

import os
import shutil
from pathlib import Path


class Disk:
    """The real file system; tests put one in its place that fails at a chosen operation."""

    def make_folder(self, path: Path) -> None:
        """A new, empty folder."""
        path.mkdir(parents=True)

    def write(self, path: Path, content: bytes) -> None:
        """A file with this content, on the disk and not only on its way there."""
        with path.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())

    def sync_folder(self, path: Path) -> None:
        """What was made, renamed or removed in a folder stays so after a power cut."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def rename(self, old: Path, new: Path) -> None:
        """One name in place of another, in one step."""
        old.rename(new)

    def remove_folder(self, path: Path) -> None:
        """A folder and what is in it."""
        shutil.rmtree(path)


def write_whole(path: Path, content: str, disk: Disk | None = None) -> None:
    """Put a file in place in one step: a reader or a crash never sees half of it."""
    disk = disk or Disk()
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    disk.write(partial, content.encode())
    disk.rename(partial, path)
    disk.sync_folder(path.parent)
