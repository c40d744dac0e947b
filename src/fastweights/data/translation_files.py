"""Files of sentence pairs: where a split's two languages stand, and how they are read side by side.

FOLDER/train.en  train.de  val.en  val.de  test_2016.en  test_2016.de     one sentence a line, also .gz or .xz
FOLDER/train.en-de.tsv  …                                                 two columns, also .gz or .xz
FOLDER/train.tsv  …                                                       the same, source first
FILE.tsv                                                                  cut 90 : 5 : 5
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from fastweights.data.compressed import COMPRESSED, opened
from fastweights.files import sha256_of

TRAIN, VALID, TEST = "train", "val", "test"
SPLIT_NAMES = {TRAIN: (TRAIN,), VALID: (VALID, "valid", "validation", "dev")}
SPLIT_SHARES = {TRAIN: (0.0, 0.9), VALID: (0.9, 0.95), TEST: (0.95, 1.0)}
"""Which part of a single file belongs to which split."""

Pair = tuple[str, str]


@dataclass(frozen=True)
class Languages:
    """What is translated into what, by the names that files end in."""

    source: str
    target: str

    def __post_init__(self) -> None:
        for name in (self.source, self.target):
            if not name or not all(part.isalnum() for part in name.replace("_", "-").split("-")):
                raise ValueError(f"language: expected a name such as en or de, got {name!r}")
        if self.source == self.target:
            raise ValueError(f"target: expected another language than the source, got {self.target!r} twice")

    def __str__(self) -> str:
        return f"{self.source}-{self.target}"


@dataclass(frozen=True)
class PairFiles:
    """The files of one split: one for each language, or one with both in columns; possibly a share of their lines."""

    source: Path
    target: Path
    columns: tuple[int, int] | None = None
    share: tuple[float, float] = (0.0, 1.0)

    def digest(self) -> str:
        """Changes with the pairs."""
        return f"{sha256_of(self.source)} {sha256_of(self.target)} {self.columns} {self.share}"

    def pairs(self) -> Iterator[Pair]:
        """All pairs; a ValueError says which line of which file cannot be one."""
        pairs = self._side_by_side() if self.columns is None else self._from_columns(self.columns)
        if self.share == (0.0, 1.0):
            yield from pairs
            return
        count = sum(1 for _ in _lines(self.source))
        first, last = (round(count * bound) for bound in self.share)
        yield from (pair for number, pair in enumerate(pairs) if first <= number < last)

    def _side_by_side(self) -> Iterator[Pair]:
        sources, targets = _lines(self.source), _lines(self.target)
        number = 0
        for number, source in enumerate(sources, start=1):
            target = next(targets, None)
            if target is None:
                raise self._unequal(number + sum(1 for _ in sources), number - 1)
            yield self._checked(source, target, number)
        more = sum(1 for _ in targets)
        if more:
            raise self._unequal(number, number + more)

    def _from_columns(self, columns: tuple[int, int]) -> Iterator[Pair]:
        for number, line in enumerate(_lines(self.source), start=1):
            cells = line.split("\t")
            if len(cells) != 2:
                raise ValueError(
                    f"{self.source}: line {number} has {len(cells)} columns; expected two, with one tab between them"
                )
            yield self._checked(cells[columns[0]], cells[columns[1]], number)

    def _checked(self, source: str, target: str, number: int) -> Pair:
        for text, path in ((source, self.source), (target, self.target)):
            if not text.strip():
                raise ValueError(
                    f"{path}: line {number} is empty; a pair needs text on both sides: leave the line out in both"
                )
        return source, target

    def _unequal(self, sources: int, targets: int) -> ValueError:
        return ValueError(
            f"{self.source} has {sources} lines and {self.target} has {targets}: "
            "expected as many, line by line translations of each other"
        )


def find_splits(path: Path, languages: Languages) -> dict[str, PairFiles]:
    """The files of `train`, `val` and every test set, the latter by the names of their files."""
    if path.is_file():
        if _stem(path.name) is None:
            raise ValueError(f"{path}: expected a folder, or a file of two columns named .tsv, .tsv.gz or .tsv.xz")
        return {split: PairFiles(path, path, _columns(path, languages), share) for split, share in SPLIT_SHARES.items()}
    if not path.is_dir():
        raise ValueError(f"{path}: no such file or folder; possible: a folder with train.{languages.source} and so on")
    names = sorted({file.name for file in path.iterdir() if file.is_file()})
    splits: dict[str, PairFiles] = {}
    for split, stems in SPLIT_NAMES.items():
        found = [files for stem in stems if (files := _split(path, stem, languages, names)) is not None]
        if not found:
            raise ValueError(_missing(path, split, languages, names))
        splits[split] = found[0]
    tests = sorted({name.partition(".")[0] for name in names if name.startswith(TEST)})
    found_tests = {stem: files for stem in tests if (files := _split(path, stem, languages, names)) is not None}
    if not found_tests:
        raise ValueError(_missing(path, TEST, languages, names))
    return splits | found_tests


def _split(folder: Path, stem: str, languages: Languages, names: list[str]) -> PairFiles | None:
    """The files of a split with this name, if both languages are there."""
    for ending in COMPRESSED:
        for columns in (f".{languages}", f".{languages.target}-{languages.source}", ""):
            if (name := f"{stem}{columns}.tsv{ending}") in names:
                return PairFiles(folder / name, folder / name, _columns(folder / name, languages))
    files = [
        next((folder / name for ending in COMPRESSED if (name := f"{stem}.{language}{ending}") in names), None)
        for language in (languages.source, languages.target)
    ]
    source, target = files
    return None if source is None or target is None else PairFiles(source, target)


def _columns(path: Path, languages: Languages) -> tuple[int, int]:
    """Where source and target stand: as the name says, or source first."""
    stem = _stem(path.name) or ""
    return (1, 0) if stem.endswith(f".{languages.target}-{languages.source}") else (0, 1)


def _stem(name: str) -> str | None:
    """The name of a file of columns without its endings; None for any other file."""
    return next((name.removesuffix(f".tsv{end}") for end in COMPRESSED if name.endswith(f".tsv{end}")), None)


def _missing(folder: Path, split: str, languages: Languages, names: list[str]) -> str:
    star = "*" if split == TEST else ""
    expected = f"{split}{star}.{languages.source} and {split}{star}.{languages.target}"
    there = {language for language in (languages.source, languages.target) if any(_is_in(n, language) for n in names)}
    absent = [language for language in (languages.source, languages.target) if language not in there]
    reason = f"; nothing there is in {' or '.join(absent)}" if absent and names else ""
    return (
        f"{folder}: there is no {split} text from {languages.source} to {languages.target}; expected {expected} "
        f"(also .gz or .xz), or {split}{star}.tsv; found {', '.join(names[:8]) or 'nothing'}{reason}"
    )


def _is_in(name: str, language: str) -> bool:
    return language in name.replace("-", ".").split(".")[1:]


def _lines(path: Path) -> Iterator[str]:
    """The lines of a file without their ends; only a line feed ends one, as in every tool that made such files."""
    number = 0
    try:
        with opened(path) as (content, _):
            for number, line in enumerate(content, start=1):
                text = line.decode("utf-8-sig" if number == 1 else "utf-8")
                yield text.rstrip("\r\n")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{path}: line {number} is not UTF-8 text (byte {error.object[error.start]:#04x}: {error.reason})"
        ) from error
