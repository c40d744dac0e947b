"""Shuffled pairs find their places in the text that they were taken from."""

import subprocess
import sys
from pathlib import Path

import pytest

from fastweights.data.ordered_pairs import letters, places_of, write_in_order
from fastweights.data.translation_files import Languages

TEXT = """We have a point , he said . Is it yours ? Thank you .
Nobody spoke for an hour ; then all did . Thank you .
It was late <unk> the end .
"""
"""Two sentences stand there twice or with a word that is not known."""
SHUFFLED = {"then all did.": "5", "Is it yours?": "2", "We have a point, he said.": "1", "Thank you.": "3"}
ENGLISH_GERMAN = Languages("en", "de")


def folder_of(path: Path, pairs: dict[str, str]) -> Path:
    path.mkdir()
    for split in ("train", "val", "test"):
        (path / f"{split}.en").write_text("".join(f"{line}\n" for line in pairs))
        (path / f"{split}.de").write_text("".join(f"{line}\n" for line in pairs.values()))
    return path


def test_places_are_those_of_sentences_that_stand_there_once() -> None:
    known = {letters(line) for line in (*SHUFFLED, "It was late at the end.")}
    found = places_of(known, TEXT.splitlines())
    assert found == {"Wehaveapointhesaid": 0, "Isityours": 1, "thenalldid": 4}


def test_pairs_are_written_in_order(tmp_path: Path) -> None:
    pairs, text, out = folder_of(tmp_path / "pairs", SHUFFLED), tmp_path / "text.txt", tmp_path / "out"
    text.write_text(TEXT)
    command = [sys.executable, "-m", "fastweights.data.ordered_pairs", *map(str, (pairs, text, out))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.splitlines() == [f"{s}: 3 of 4 pairs have a place in the text" for s in ("train", "val", "test")]
    for split in ("train", "val", "test"):
        assert (out / f"{split}.en").read_text() == "We have a point, he said.\nIs it yours?\nthen all did.\n"
        assert (out / f"{split}.de").read_text() == "1\n2\n5\n"
    again = subprocess.run(command, capture_output=True, text=True)
    assert (again.returncode, again.stderr) == (1, f"error: {out}: there is something already\n")


def test_other_languages_and_bad_input(tmp_path: Path) -> None:
    pairs = folder_of(tmp_path / "pairs", SHUFFLED)
    with pytest.raises(ValueError, match="there is no train text from en to fr"):
        write_in_order(pairs, tmp_path / "text.txt", tmp_path / "out", Languages("en", "fr"))
    with pytest.raises(ValueError, match=r"text\.txt: no such file or folder"):
        write_in_order(pairs, tmp_path / "text.txt", tmp_path / "out", ENGLISH_GERMAN)
    (tmp_path / "text.txt").write_text("Nothing of it .\n")
    with pytest.raises(ValueError, match=r"text\.txt: no sentence of train, val, test stands there just once"):
        write_in_order(pairs, tmp_path / "text.txt", tmp_path / "out", ENGLISH_GERMAN)
    assert not (tmp_path / "out").exists()
