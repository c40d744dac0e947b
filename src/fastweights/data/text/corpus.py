"""Text corpora: a WikiText folder, a plain text file, or WikiText by name, as three memory-mapped streams of tokens."""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fastweights.data.cache_folder import default_cache, write_folder
from fastweights.data.text.cache import SPLITS, TokenArray, open_cache, write_cache
from fastweights.data.text.tokenizers import Lines, Splitter, Vocabulary, Words
from fastweights.files import new_folder, sha256_of

FILE_NAMES: dict[str, tuple[str, ...]] = {
    split: (f"{split}.txt", f"wiki.{split}.tokens", f"wiki.{split}.raw") for split in SPLITS
}
SHARES = {"train": 0.9, "valid": 0.95, "test": 1.0}
"""A single file is cut here: a line belongs to the first split whose share its start does not reach."""


@dataclass(frozen=True)
class PublicCorpus:
    """A corpus that `datasets` downloads, and what it must contain."""

    path: str
    name: str
    tokens: tuple[int, int, int]
    vocabulary_size: int


PUBLIC = {
    "wikitext-2": PublicCorpus("Salesforce/wikitext", "wikitext-2-v1", (2_088_628, 217_646, 245_569), 33_278),
    "wikitext-103": PublicCorpus("Salesforce/wikitext", "wikitext-103-v1", (103_227_021, 217_646, 245_569), 267_735),
}
"""Word-level counts, `<eos>` included."""


@dataclass(frozen=True, eq=False)
class Corpus:
    """A vocabulary and the streams of its splits; nothing of them is in memory before it is read."""

    vocabulary: Vocabulary
    train: TokenArray
    valid: TokenArray
    test: TokenArray
    digest: str
    """Changes with the text and with the way it is split."""

    def split(self, name: str) -> TokenArray:
        """A split by name."""
        if name not in SPLITS:
            raise ValueError(f"split: unknown name {name!r}; possible: {', '.join(SPLITS)}")
        stream: TokenArray = getattr(self, name)
        return stream


def open_corpus(source: str | Path, splitter: Splitter | None = None, cache: Path | None = None) -> Corpus:
    """The corpus in a folder or file, or one of `PUBLIC` by name; tokenised on first use, then opened from the cache.

    A folder holds train, valid and test files in WikiText's naming; a single file is cut 90 : 5 : 5 at line ends.
    """
    splitter = Words() if splitter is None else splitter
    cache = default_cache() if cache is None else cache
    known = PUBLIC.get(str(source)) if not Path(source).exists() else None
    path = Path(source) if known is None else _download(str(source), known, cache)
    texts, contents = _texts(path, splitter)
    key = hashlib.sha256(repr((splitter, contents)).encode()).hexdigest()[:24]
    folder = cache / key
    if not folder.exists():
        texts = _with_content(path, splitter, texts)
        write_folder(cache, key, lambda partial: _encode(partial, splitter, texts))
    vocabulary, streams = open_cache(folder)
    if known is not None and isinstance(splitter, Words):
        found = (*(len(streams[split]) for split in SPLITS), len(vocabulary))
        if found != (*known.tokens, known.vocabulary_size):
            raise ValueError(
                f"{source}: expected {known.tokens} tokens and {known.vocabulary_size} words, got {found}: "
                "the text does not match the published WikiText counts"
            )
    return Corpus(vocabulary, streams["train"], streams["valid"], streams["test"], key)


def _encode(folder: Path, splitter: Splitter, texts: dict[str, Lines]) -> dict[str, Any]:
    """Encode the texts into an empty folder, and describe it."""
    return write_cache(folder, _vocabulary(splitter, texts), {split: lines() for split, lines in texts.items()})


def _texts(path: Path, splitter: Splitter) -> tuple[dict[str, Lines], list[str]]:
    """How to read every split, and digests that change when any of them does."""
    block = splitter.longest_block
    if path.is_dir():
        files = {split: _find(path, split) for split in SPLITS}
        return {split: partial(_read, file, block) for split, file in files.items()}, [
            sha256_of(file) for file in files.values()
        ]
    if not path.exists():
        raise ValueError(
            f"{path}: no such file or folder; possible: a folder with train.txt, valid.txt and test.txt, "
            f"a text file, or one of {', '.join(PUBLIC)}"
        )
    if not path.is_file():
        raise ValueError(f"{path}: neither a folder nor a file, so it may have no end")
    return _shares(path, block), [str(SHARES), sha256_of(path)]


def _shares(path: Path, block: int) -> dict[str, Lines]:
    return {split: partial(_read_share, path, block, split) for split in SPLITS}


def _with_content(path: Path, splitter: Splitter, texts: dict[str, Lines]) -> dict[str, Lines]:
    """The texts, none of them empty; those of a file with very long lines in shorter blocks if they have to be."""
    empty, reason = _first_empty(texts), ""
    if empty is not None and path.is_file():
        reason = "; the file is too short"
        if splitter.longest_block < 0:
            reason = "; a file is cut at line ends, this has too few"
        # Blocks of so many characters have fewer bytes than a split, even where each character is four.
        elif block := min(path.stat().st_size // 100, splitter.longest_block):
            texts = _shares(path, block)
            empty = _first_empty(texts)
    if empty is not None:
        raise ValueError(f"{path}: the {empty} text is empty{reason}")
    return texts


def _first_empty(texts: dict[str, Lines]) -> str | None:
    return next((split for split, lines in texts.items() if not any(line.strip() for line in lines())), None)


def _vocabulary(splitter: Splitter, texts: dict[str, Lines]) -> Vocabulary:
    """The training text's vocabulary, with `<unk>` if another text needs it."""
    vocabulary = Vocabulary.of(splitter, texts["train"])
    if splitter.writes_anything:
        return vocabulary
    known = all(vocabulary.knows(line) for split in ("valid", "test") for line in texts[split]())
    return vocabulary if known else vocabulary.with_unknown()


def _find(folder: Path, split: str) -> Path:
    for name in FILE_NAMES[split]:
        if (folder / name).is_file():
            return folder / name
    found = sorted(file.name for file in folder.iterdir())[:8]
    raise ValueError(
        f"{folder}: there is no {split} text; expected one of {', '.join(FILE_NAMES[split])}, "
        f"found {', '.join(found) or 'nothing'}"
    )


def _read(path: Path, block: int) -> Iterator[str]:
    """The lines of a file; longer ones in blocks."""
    try:
        with path.open(encoding="utf-8-sig") as file:
            while line := file.readline(block):
                yield line
    except UnicodeDecodeError as error:
        found = f"byte {error.object[error.start]:#04x}: {error.reason}"
        with path.open("rb") as file:
            if file.read(2) in (b"\xff\xfe", b"\xfe\xff"):
                found = "it begins like UTF-16: convert it, for instance with iconv -f UTF-16 -t UTF-8"
        raise ValueError(f"{path}: not UTF-8 text ({found})") from error


def _read_share(path: Path, block: int, split: str) -> Iterator[str]:
    """The lines of one split of a file that holds all three."""
    # Not the size of the file: line ends may be two bytes there, and are one here.
    size, position = sum(len(line.encode()) for line in _read(path, block)), 0
    bounds = [0.0, *SHARES.values()]
    place = SPLITS.index(split)
    for line in _read(path, block):
        if bounds[place] <= position / size < bounds[place + 1]:
            yield line
        position += len(line.encode())


def _download(name: str, corpus: PublicCorpus, cache: Path) -> Path:
    """A folder with the text of a public corpus, fetched by `datasets` once."""
    folder = cache / name
    if folder.exists():
        return folder
    load = _load_dataset(name)
    with new_folder(folder) as partial:
        if partial is not None:
            for split, their_name in zip(SPLITS, ("train", "validation", "test"), strict=True):
                rows: Iterable[dict[str, str]] = load(corpus.path, corpus.name, split=their_name)
                with (partial / f"{split}.txt").open("w", encoding="utf-8", newline="\n") as file:
                    file.writelines(row["text"].rstrip("\n") + "\n" for row in rows)
    return folder


def _load_dataset(name: str) -> Callable[..., Any]:
    try:
        from datasets import load_dataset
    except ImportError as error:
        raise ValueError(
            f"{name}: downloading it needs the datasets package (pip install 'fastweights[data]'); "
            "or give the folder that holds its text"
        ) from error
    found: Callable[..., Any] = load_dataset
    return found
