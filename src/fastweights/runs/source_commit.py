"""Which commit of the project is running."""

import subprocess
from pathlib import Path


def source_commit() -> str | None:
    """The commit of the work tree that this file belongs to, with "+" if files differ from it; None if unknown."""
    try:
        commit = _git("rev-parse", "--short=12", "HEAD")
        changed = _git("status", "--porcelain", "--untracked-files=no", "--", ".")
    except (OSError, subprocess.SubprocessError):
        return None
    return commit + ("+" if changed else "")


def _git(*arguments: str) -> str:
    command = ["git", "-C", str(Path(__file__).resolve().parents[1]), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=10).stdout.strip()  # noqa: S603
