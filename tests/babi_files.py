"""Small files in the form of bAbI."""

from pathlib import Path

STORIES = (
    "1 Mary moved to the bathroom.\n2 John went to the hallway.\n3 Where is Mary? \tbathroom\t1\n"
    "1 John went to the office.\n2 What rooms are there?\toffice,hallway\t1\n"
)
"""Two stories with a question each."""


def write_task(folder: Path, task: int, copies: int) -> None:
    """The two files of a task, with so many copies of the stories."""
    folder.mkdir(parents=True, exist_ok=True)
    for split in ("train", "test"):
        (folder / f"qa{task}_small_{split}.txt").write_text(STORIES * copies)
