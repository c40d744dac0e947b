"""Files and folders are whole or absent, and a lock has one owner, whatever fails and whoever is killed."""

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from fastweights.files import (
    LARGEST_JSON,
    FileSystem,
    exclusive,
    new_folder,
    read_json,
    sha256_of,
    to_json,
    write_whole,
)


class Failing(FileSystem):
    """Fails at one operation, a write half-way through."""

    def __init__(self, operation: str, error: BaseException) -> None:
        self.operation, self.error = operation, error

    def write(self, path: Path, content: bytes) -> None:
        if self.operation == "write":
            path.write_bytes(content[: len(content) // 2])
            raise self.error
        super().write(path, content)

    def rename(self, old: Path, new: Path) -> None:
        if self.operation == "rename":
            raise self.error
        super().rename(old, new)


def test_writing_replaces_a_file_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "ü file.txt"
    write_whole(path, "first")
    write_whole(path, b"second")
    assert path.read_text() == "second"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("operation", ["write", "rename"])
def test_an_error_of_the_disk_leaves_the_old_file_or_none(tmp_path: Path, operation: str) -> None:
    full = Failing(operation, OSError(28, "No space left on device"))
    path = tmp_path / "file.json"
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "first", full)
    assert list(tmp_path.iterdir()) == []
    write_whole(path, "first")
    with pytest.raises(OSError, match="No space left"):
        write_whole(path, "second", full)
    assert path.read_text() == "first"
    assert list(tmp_path.iterdir()) == [path]


class Killed(BaseException):
    """The process is gone: nothing more is done."""


@pytest.mark.parametrize("operation", ["write", "rename"])
def test_a_process_that_dies_leaves_the_old_file(tmp_path: Path, operation: str) -> None:
    path = tmp_path / "file.json"
    write_whole(path, "first")
    with pytest.raises(Killed):
        write_whole(path, "second", Failing(operation, Killed()))
    assert path.read_text() == "first"
    # What it left is hidden, and the next one of its kind writes over it.
    assert all(file.name.startswith(".file.json.") for file in tmp_path.iterdir() if file != path)
    write_whole(path, "third")
    assert path.read_text() == "third"
    assert list(tmp_path.iterdir()) == [path]


def test_json_is_read_back_and_nothing_else_is_written(tmp_path: Path) -> None:
    write_whole(tmp_path / "a.json", to_json({"x": 1 / 3, "y": ["ü", None]}))
    assert read_json(tmp_path / "a.json") == {"x": 1 / 3, "y": ["ü", None]}
    with pytest.raises(ValueError, match="JSON"):
        to_json({"x": float("nan")})


@pytest.mark.parametrize("text", ["[]", "3", "null", '"x"'])
def test_json_that_is_no_object_is_refused(text: str, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=f"{path}: corrupted, expected an object"):
        read_json(path)


def test_deep_and_huge_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("[" * 100_000 + "]" * 100_000)
    with pytest.raises(ValueError, match="corrupted"):
        read_json(path)
    path.write_text(" " * (LARGEST_JSON + 1))
    with pytest.raises(ValueError, match=f"corrupted, larger than {LARGEST_JSON} bytes"):
        read_json(path)
    path.write_bytes(b"\xff\xfe\x00{}")
    with pytest.raises(ValueError, match="corrupted"):
        read_json(path)


def test_the_digest_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"abc")
    assert sha256_of(tmp_path / "a") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"


@contextlib.contextmanager
def other_process(script: str, path: Path) -> Iterator["subprocess.Popen[str]"]:
    """Another process with the functions of files.py; killed in the end if it still lives."""
    imports = "import sys, time, pathlib\nfrom fastweights.files import *\npath = pathlib.Path(sys.argv[1])\n"
    with subprocess.Popen(
        [sys.executable, "-c", imports + script, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


HOLDING = """
with exclusive(path) as owner:
    print(owner, flush=True)
    sys.stdin.readline()
"""


def test_a_lock_has_one_owner_and_a_killed_one_owns_nothing(tmp_path: Path) -> None:
    with other_process(HOLDING, tmp_path) as owner:
        assert said(owner) == "None"
        # However often it is asked for: a refused process must not disturb what the owner wrote.
        for _ in range(2):
            with exclusive(tmp_path) as found:
                assert found == owner.pid
        owner.kill()
        owner.wait()
        with exclusive(tmp_path) as found:
            assert found is None


def test_a_lock_is_released_where_its_block_ends(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "folder"
    with pytest.raises(KeyboardInterrupt), exclusive(folder):
        killed(folder)
    with exclusive(folder) as found:
        assert found is None
        with exclusive(folder) as again:
            assert again == os.getpid()
    with other_process(HOLDING, folder) as other:
        assert said(other) == "None"
        assert other.stdin is not None
        other.stdin.write("\n")
        other.stdin.flush()
        assert other.wait(60) == 0
    with exclusive(folder) as found:
        assert found is None


def test_an_owner_that_wrote_nothing_readable_is_unknown(tmp_path: Path) -> None:
    with other_process(HOLDING, tmp_path) as owner:
        assert said(owner) == "None"
        (tmp_path / ".lock").write_text("not a number")
        with exclusive(tmp_path) as found:
            assert found == 0


def visible(folder: Path) -> list[str]:
    """What is in a folder besides lock files, which stay."""
    return sorted(path.name for path in folder.iterdir() if path.suffix != ".lock")


def test_a_new_folder_appears_when_it_is_complete(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "folder"
    with new_folder(path) as partial:
        assert partial is not None
        (partial / "file").write_text("content")
        assert not path.exists()
        assert partial.parent == path.parent
    assert (path / "file").read_text() == "content"
    assert visible(path.parent) == ["folder"]
    with new_folder(path) as partial:
        assert partial is None
    assert (path / "file").read_text() == "content"


def no_space(path: Path) -> None:
    raise OSError(28, "No space left on device")


def no_description(path: Path) -> None:
    raise OSError("no such corpus")


def bad_content(path: Path) -> None:
    raise ValueError("the text is empty")


def killed(path: Path) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("fail", "error", "message"),
    [
        (no_space, OSError, r"folder: could not be written \(No space left on device\); nothing was left behind"),
        (no_description, OSError, "^no such corpus$"),
        (bad_content, ValueError, "^the text is empty$"),
        (killed, KeyboardInterrupt, "^$"),
    ],
)
def test_a_failure_leaves_nothing(
    tmp_path: Path, fail: Callable[[Path], None], error: type[BaseException], message: str
) -> None:
    path = tmp_path / "folder"

    def fill() -> None:
        with new_folder(path) as partial:
            assert partial is not None
            (partial / "file").write_text("half")
            fail(partial)

    with pytest.raises(error, match=message):
        fill()
    assert visible(tmp_path) == []
    with new_folder(path) as partial:
        assert partial is not None
    assert visible(tmp_path) == ["folder"]


def test_a_folder_that_cannot_take_its_place_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fastweights.files.FILE_SYSTEM", Failing("rename", OSError(28, "No space left on device")))
    with pytest.raises(OSError, match="nothing was left behind"), new_folder(tmp_path / "folder") as partial:
        assert partial is not None
    assert visible(tmp_path) == []


def test_a_place_where_nothing_can_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(OSError, match=r"file: cannot write here \(.*\); name another folder"),
        new_folder(tmp_path / "file" / "folder"),
    ):
        pass


FILLING = """
with new_folder(path) as partial:
    print(partial, flush=True)
    if partial is not None:
        (partial / "file").write_text("from the other")
        sys.stdin.readline()
"""


def test_two_processes_that_want_one_folder_both_get_it(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    with other_process(FILLING, path) as first:
        partial = Path(said(first))
        with other_process(FILLING, path) as second:
            # The second waits, and leaves alone what the first is writing.
            time.sleep(1)
            assert second.poll() is None
            assert partial.is_dir()
            assert not path.exists()
            assert first.stdin is not None
            first.stdin.write("\n")
            first.stdin.flush()
            assert first.wait(60) == 0
            assert said(second) == "None"
            assert second.wait(60) == 0
    assert (path / "file").read_text() == "from the other"
    assert visible(tmp_path) == ["folder"]


def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    (tmp_path / "folder-of-another.partial-x").mkdir()
    with other_process(FILLING, path) as process:
        partial = Path(said(process))
        process.kill()
        process.wait()
    assert partial.is_dir()
    assert not path.exists()
    with new_folder(path) as mine:
        assert mine is not None
        assert not partial.exists()
        (mine / "file").write_text("mine")
    assert (path / "file").read_text() == "mine"
    assert visible(tmp_path) == ["folder", "folder-of-another.partial-x"]


def test_a_waiting_process_takes_over_from_a_killed_one(tmp_path: Path) -> None:
    path = tmp_path / "folder"
    found: list[Any] = []
    with other_process(FILLING, path) as first:
        partial = Path(said(first))
        with other_process(FILLING, path) as second:
            time.sleep(1)
            first.kill()
            first.wait()
            found.append(Path(said(second)))
            assert second.stdin is not None
            second.stdin.write("\n")
            second.stdin.flush()
            assert second.wait(60) == 0
    assert found[0] != partial
    assert visible(tmp_path) == ["folder"]
