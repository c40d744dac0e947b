"""Parallel corpora: a folder of sentence pairs, a file of two columns, or WMT14 by name, as memory-mapped token ids.

CACHE/KEY/SPLIT.source.tokens  SPLIT.source.offsets  SPLIT.target.…      sentence i is tokens[offsets[i]:offsets[i+1]]
CACHE/KEY/SPLIT.source.txt  SPLIT.target.txt                             the raw lines of all splits but train
CACHE/KEY/tokeniser.json
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from fastweights.data.cache_folder import checked_folder, default_cache, write_folder
from fastweights.data.translation_download import PUBLIC_PAIRS, download
from fastweights.data.translation_files import TRAIN, VALID, Languages, Pair, PairFiles, find_splits
from fastweights.data.translation_tokeniser import JointBytePairs
from fastweights.files import FILE_SYSTEM

FORMAT = 1
SIDES = ("source", "target")
BLOCK = 4096
"""Pairs that are encoded at a time."""


@dataclass(frozen=True, eq=False)
class Sentences:
    """The token ids of sentences one after the other, and where each starts."""

    tokens: NDArray[np.unsignedinteger[Any]]
    offsets: NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> NDArray[np.unsignedinteger[Any]]:
        return self.tokens[self.offsets[number] : self.offsets[number + 1]]

    @cached_property
    def lengths(self) -> NDArray[np.int64]:
        """Tokens of every sentence."""
        return np.diff(self.offsets)


@dataclass(frozen=True, eq=False)
class PairedSentences:
    """Sentence i of the source and its translation, sentence i of the target, without special symbols."""

    source: Sentences
    target: Sentences

    def __len__(self) -> int:
        return len(self.source)

    def joined(self, count: int) -> "PairedSentences":
        """So many pairs after each other as one, the last perhaps of fewer: longer inputs of the same text."""
        sides = (self.source, self.target)
        source, target = (
            Sentences(side.tokens, np.append(side.offsets[:-1:count], side.offsets[-1])) for side in sides
        )
        return self if count == 1 else PairedSentences(source, target)


@dataclass(frozen=True, eq=False)
class TranslationCorpus:
    """A tokeniser of both languages and the pairs of every split; no token is in memory before it is read."""

    languages: Languages
    tokeniser: JointBytePairs
    splits: Mapping[str, PairedSentences]
    folder: Path
    """Where the cache holds it."""

    @property
    def digest(self) -> str:
        """Changes with the text, the languages and the tokeniser."""
        return self.folder.name

    @property
    def train(self) -> PairedSentences:
        """The pairs to learn from."""
        return self.splits[TRAIN]

    @property
    def valid(self) -> PairedSentences:
        """The pairs to choose by."""
        return self.splits[VALID]

    @property
    def test_names(self) -> tuple[str, ...]:
        """The test sets, by the names of their files."""
        return tuple(name for name in self.splits if name not in (TRAIN, VALID))

    def split(self, name: str) -> PairedSentences:
        """The pairs of a split by name."""
        if name not in self.splits:
            raise ValueError(f"split: unknown name {name!r}; possible: {', '.join(self.splits)}")
        return self.splits[name]

    def lines(self, name: str, joined: int = 1) -> tuple[list[str], list[str]]:
        """The raw lines of a split to be scored, sources and references, so many of them joined into one."""
        if name == TRAIN or name not in self.splits:
            possible = ", ".join(split for split in self.splits if split != TRAIN)
            raise ValueError(f"split: {name!r} has no raw lines; possible: {possible}")
        # In a text file other line ends than a line feed would be taken for one.
        read = [(self.folder / f"{name}.{side}.txt").read_bytes().decode() for side in SIDES]
        sides = (text.split("\n")[:-1] for text in read)
        source, target = (
            [" ".join(lines[start : start + joined]) for start in range(0, len(lines), joined)] for lines in sides
        )
        return source, target


def open_translation(
    data: str | Path, languages: Languages, tokeniser: JointBytePairs | None = None, cache: Path | None = None
) -> TranslationCorpus:
    """The pairs in a folder or file, or one of `PUBLIC_PAIRS` by name; encoded on first use, then read from the cache.

    A tokeniser that is not trained yet learns from both sides of the training pairs.
    """
    tokeniser = JointBytePairs() if tokeniser is None else tokeniser
    cache = default_cache() if cache is None else cache
    public = str(data) in PUBLIC_PAIRS and not Path(data).exists()
    files = find_splits(download(str(data), languages, cache) if public else Path(data), languages)
    contents = {split: split_files.digest() for split, split_files in files.items()}
    described = repr((FORMAT, str(languages), tokeniser.to_json(), contents))
    folder = cache / hashlib.sha256(described.encode()).hexdigest()[:24]
    if not folder.exists():
        write_folder(cache, folder.name, lambda partial: _write_corpus(partial, files, tokeniser))
    return _read_corpus(folder, languages)


def _write_corpus(folder: Path, files: Mapping[str, PairFiles], tokeniser: JointBytePairs) -> Mapping[str, Any]:
    for split, split_files in files.items():
        # Every line is checked before the time is spent to train and encode.
        if not sum(1 for _ in split_files.pairs()):
            raise ValueError(f"{split_files.source}: the {split} text is empty")
    if not tokeniser.model:
        tokeniser = tokeniser.fit(chain.from_iterable(files[TRAIN].pairs()))
    dtype = np.dtype("<u2" if len(tokeniser) <= 1 << 16 else "<u4")
    for split, split_files in files.items():
        _write_split(folder, split, split_files.pairs(), tokeniser, dtype)
    FILE_SYSTEM.write(folder / "tokeniser.json", tokeniser.to_json().encode())
    return {"format": FORMAT, "dtype": dtype.str, "splits": list(files)}


def _write_split(
    folder: Path, split: str, pairs: Iterator[Pair], tokeniser: JointBytePairs, dtype: np.dtype[Any]
) -> None:
    endings = ("tokens", "offsets") if split == TRAIN else ("tokens", "offsets", "txt")
    with ExitStack() as stack:
        files: dict[tuple[str, str], BinaryIO] = {
            (side, ending): stack.enter_context((folder / f"{split}.{side}.{ending}").open("wb"))
            for side in SIDES
            for ending in endings
        }
        ends = {side: np.zeros(1, dtype="<i8") for side in SIDES}
        for side in SIDES:
            files[side, "offsets"].write(ends[side].tobytes())
        while block := list(islice(pairs, BLOCK)):
            for side, lines in zip(SIDES, zip(*block, strict=True), strict=True):
                encoded = tokeniser.encode(lines)
                ends[side] = ends[side][-1] + np.cumsum([len(line) for line in encoded], dtype="<i8")
                files[side, "tokens"].write(np.fromiter(chain.from_iterable(encoded), dtype=dtype).tobytes())
                files[side, "offsets"].write(ends[side].tobytes())
                if split != TRAIN:
                    files[side, "txt"].write("".join(f"{line}\n" for line in lines).encode())
        for file in files.values():
            file.flush()
            os.fsync(file.fileno())


def _read_corpus(folder: Path, languages: Languages) -> TranslationCorpus:
    with checked_folder(folder) as manifest:
        dtype = np.dtype(manifest["dtype"])
        if manifest["format"] != FORMAT or dtype.str not in ("<u2", "<u4"):
            raise ValueError(f"unknown format {manifest['format']!r}")
        if set(manifest["files"]) != _file_names(manifest["splits"]):
            raise ValueError("the manifest names other files")
        tokeniser = JointBytePairs.from_json((folder / "tokeniser.json").read_text(encoding="utf-8"))
        splits = {
            split: PairedSentences(*(_sentences(folder / f"{split}.{side}", dtype) for side in SIDES))
            for split in manifest["splits"]
        }
    return TranslationCorpus(languages, tokeniser, splits, folder)


def _file_names(splits: Iterable[str]) -> set[str]:
    names = {f"{split}.{side}.{kind}" for split in splits for side in SIDES for kind in ("tokens", "offsets")}
    texts = {f"{split}.{side}.txt" for split in splits for side in SIDES if split != TRAIN}
    return names | texts | {"tokeniser.json"}


def _sentences(path: Path, dtype: np.dtype[Any]) -> Sentences:
    tokens = np.memmap(path.with_name(f"{path.name}.tokens"), dtype=dtype, mode="r")
    return Sentences(tokens, np.memmap(path.with_name(f"{path.name}.offsets"), dtype="<i8", mode="r"))
