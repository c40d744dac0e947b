"""Sentence pairs put back into the order of the text that they were taken from.

    python -m fastweights.data.ordered_pairs PAIRS TEXT OUT [SOURCE TARGET]

PAIRS is a folder of `translation_files.py`, TEXT a folder or file with the text of the source language in order, OUT
the new folder; the languages are en and de if absent. Pairs are often handed on shuffled; where the text that they were
taken from is known, each sentence tells its place.
"""

import re
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from fastweights.data.compressed import text_lines
from fastweights.data.text.corpus import files_of
from fastweights.data.translation_files import Languages, find_splits
from fastweights.files import write_whole

SENTENCE_END = re.compile(r"(?<=[.?!:;])\s")
NEITHER_LETTER_NOR_DIGIT = re.compile(r"[\W_]+")


def write_in_order(pairs: Path, text: Path, out: Path, languages: Languages) -> dict[str, tuple[int, int]]:
    """Write the pairs of every split whose source stands just once in the text, in its order.

    Returns how many of how many pairs of each split were found. Spaces and punctuation do not count, so that the text
    may be split into words.
    """
    if out.exists():
        raise ValueError(f"{out}: there is something already")
    splits = {name: list(files.pairs()) for name, files in find_splits(pairs, languages).items()}
    known = {letters(source) for found in splits.values() for source, _ in found}
    places = places_of(known, (line for path in _files(text) for line in text_lines(path)))
    placed = {
        name: sorted((place, pair) for pair in found if (place := places.get(letters(pair[0]))) is not None)
        for name, found in splits.items()
    }
    if lost := [name for name, found in placed.items() if not found]:
        raise ValueError(f"{text}: no sentence of {', '.join(lost)} stands there just once")
    for name, found in placed.items():
        for side, language in enumerate((languages.source, languages.target)):
            write_whole(out / f"{name}.{language}", "".join(f"{pair[side]}\n" for _, pair in found).encode())
    return {name: (len(found), len(splits[name])) for name, found in placed.items()}


def places_of(known: set[str], lines: Iterable[str]) -> dict[str, int]:
    """The place among all sentences of the text for each of the known ones that stands there just once."""
    places: dict[str, int] = {}
    several = set()
    for place, sentence in enumerate(_sentences(lines)):
        if (found := letters(sentence)) in known:
            if found in places:
                several.add(found)
            places[found] = place
    return {found: place for found, place in places.items() if found not in several}


def letters(sentence: str) -> str:
    """The letters and digits of a sentence, which do not depend on how it was split into words."""
    return NEITHER_LETTER_NOR_DIGIT.sub("", sentence)


def _sentences(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        yield from SENTENCE_END.split(line)


def _files(text: Path) -> list[Path]:
    if not text.exists():
        raise ValueError(f"{text}: no such file or folder")
    return list(dict.fromkeys(path for paths in files_of(text).values() for path in paths))


def main() -> None:
    """What `python -m` runs."""
    if len(sys.argv) not in (4, 6):
        raise SystemExit("usage: python -m fastweights.data.ordered_pairs PAIRS TEXT OUT [SOURCE TARGET]")
    pairs, text, out = map(Path, sys.argv[1:4])
    try:
        counts = write_in_order(pairs, text, out, Languages(*(sys.argv[4:] or ("en", "de"))))
    except (ValueError, OSError) as error:
        raise SystemExit(f"error: {error}") from error
    for split, (found, total) in counts.items():
        print(f"{split}: {found:,} of {total:,} pairs have a place in the text")


if __name__ == "__main__":
    main()
