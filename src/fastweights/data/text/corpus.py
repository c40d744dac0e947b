"""Text corpora: a folder of texts, a text file, or WikiText by name, as three memory-mapped streams of tokens.

FOLDER/train.txt  valid.txt  test.txt              also .gz or .xz; or in WikiText's naming, wiki.train.tokens …
FOLDER/train-000.txt  train-001.txt …              shards of a split, read in the order of their names
FILE.txt                                           cut 90 : 5 : 5 at line ends
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from fastweights.data.cache_folder import default_cache, write_folder
from fastweights.data.compressed import COMPRESSED, OnBytes, ending_of, text_lines
from fastweights.data.hub import dataset_loader
from fastweights.data.text.cache import SPLITS, TokenArray, open_cache, write_cache
from fastweights.data.text.tokenizers import Lines, Tokenizer, Vocabulary, Words
from fastweights.files import new_folder, sha256_of

FILE_NAMES: dict[str, tuple[str, ...]] = {
    split: (f"{split}.txt", f"wiki.{split}.tokens", f"wiki.{split}.raw") for split in SPLITS
}
"""Each may end in .gz or .xz."""
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


OnProgress = Callable[[int, int], None]
"""Called with the bytes read so far and their total; texts are read more than once."""


def open_corpus(
    source: str | Path,
    tokenizer: Tokenizer | None = None,
    cache: Path | None = None,
    on_progress: OnProgress = lambda done, total: None,
    *,
    vocabulary: Vocabulary | None = None,
) -> Corpus:
    """The corpus in a folder or file, or one of `PUBLIC` by name; tokenised on first use, then opened from the cache.

    Texts are read line by line, so that memory holds their vocabulary and little else. The vocabulary is that of the
    training text, or the given one.
    """
    tokenizer = Words() if tokenizer is None else tokenizer
    cache = default_cache() if cache is None else cache
    known = PUBLIC.get(str(source)) if not Path(source).exists() else None
    path = Path(source) if known is None else _download(str(source), known, cache)
    files = files_of(path)
    key = _digest(path, files, tokenizer, "" if vocabulary is None else vocabulary.to_json())
    folder = cache / key
    if not folder.exists():
        reading = Reading(files, tokenizer, on_progress)
        texts = _with_content(path, tokenizer, reading)
        write_folder(cache, key, lambda partial: _encode(partial, vocabulary or _vocabulary(tokenizer, texts), texts))
    symbols, streams = open_cache(folder)
    if known is not None and isinstance(tokenizer, Words) and vocabulary is None:
        found = (*(len(streams[split]) for split in SPLITS), len(symbols))
        if found != (*known.tokens, known.vocabulary_size):
            raise ValueError(
                f"{source}: expected {known.tokens} tokens and {known.vocabulary_size} words, got {found}: "
                "the text does not match the published WikiText counts"
            )
    return Corpus(symbols, streams["train"], streams["valid"], streams["test"], key)


def open_if_it_is(
    digest: str,
    source: str | Path,
    vocabulary: Vocabulary,
    cache: Path | None = None,
    on_progress: OnProgress = lambda done, total: None,
) -> Corpus | None:
    """The corpus of this digest, if it lies there: read in its own words, or in those of a model that goes on with it.

    Another text on the disk is not tokenised.
    """
    path = Path(source)
    if path.is_dir() and not all(_there(path, split) for split in SPLITS):
        return None
    for given in (None, vocabulary):
        words = "" if given is None else given.to_json()
        if path.exists() and _digest(path, files_of(path), vocabulary.tokenizer, words) != digest:
            continue
        corpus = open_corpus(source, vocabulary.tokenizer, cache, on_progress, vocabulary=given)
        if corpus.digest == digest:
            return corpus
    return None


class Reading:
    """Reads the files of every split, and reports how far that is."""

    def __init__(self, files: dict[str, list[Path]], tokenizer: Tokenizer, on_progress: OnProgress) -> None:
        self.files, self.tokenizer, self.on_progress = files, tokenizer, on_progress
        sizes = {split: sum(file.stat().st_size for file in parts) for split, parts in files.items()}
        # Symbols are counted in the training text, after the tokenizer is trained on it; then every text is encoded.
        learns = type(tokenizer).fit is not Tokenizer.fit
        looked_up = 0 if tokenizer.writes_anything else sizes["valid"] + sizes["test"]
        self.total, self.done = (1 + learns) * sizes["train"] + sum(sizes.values()) + looked_up, 0

    def texts(self, block: int | None = None) -> dict[str, Lines]:
        """How to read each split; longer lines in blocks of so many characters."""
        block = self.tokenizer.longest_block if block is None else block
        files = [file for parts in self.files.values() for file in parts]
        if len(set(files)) == 1:
            return {split: partial(_read_share, files[0], block, split, self._read_more) for split in SPLITS}
        return {split: partial(self._lines, parts, block) for split, parts in self.files.items()}

    def _lines(self, parts: list[Path], block: int) -> Iterator[str]:
        for file in parts:
            yield from text_lines(file, block, self._read_more)

    def _read_more(self, count: int) -> None:
        self.done = min(self.done + count, self.total)
        self.on_progress(self.done, self.total)


def _encode(folder: Path, vocabulary: Vocabulary, texts: dict[str, Lines]) -> dict[str, Any]:
    """Encode the texts into an empty folder, and describe it."""
    return write_cache(folder, vocabulary, {split: lines() for split, lines in texts.items()})


def files_of(path: Path) -> dict[str, list[Path]]:
    """The files of every split; a single file holds all three."""
    if path.is_dir():
        return {split: files_of_split(path, split) for split in SPLITS}
    if not path.exists():
        raise ValueError(
            f"{path}: no such file or folder; possible: a folder with train.txt, valid.txt and test.txt, "
            f"a text file, or one of {', '.join(PUBLIC)}"
        )
    if not path.is_file():
        raise ValueError(f"{path}: neither a folder nor a file, so it may have no end")
    return {split: [path] for split in SPLITS}


def _digest(path: Path, files: dict[str, list[Path]], tokenizer: Tokenizer, vocabulary: str = "") -> str:
    """Changes when any of the texts does, the way it is compressed or split, or the vocabulary if one is given."""
    if path.is_file():
        contents = [str(SHARES), sha256_of(path)]
    else:
        contents = [" ".join(sha256_of(file) for file in parts) for parts in files.values()]
    if vocabulary:
        contents.append(hashlib.sha256(vocabulary.encode()).hexdigest())
    return hashlib.sha256(repr((tokenizer, contents)).encode()).hexdigest()[:24]


def _with_content(path: Path, tokenizer: Tokenizer, reading: Reading) -> dict[str, Lines]:
    """The texts, none of them empty; those of a file with very long lines in shorter blocks if they have to be."""
    texts = reading.texts()
    empty, reason = _first_empty(texts), ""
    if empty is not None and path.is_file():
        reason = "; the file is too short"
        if tokenizer.longest_block < 0:
            reason = "; a file is cut at line ends, this has too few"
        # Blocks of so many characters have fewer bytes than a split, even where each character is four.
        elif block := min(path.stat().st_size // 100, tokenizer.longest_block):
            texts = reading.texts(block)
            empty = _first_empty(texts)
    if empty is not None:
        raise ValueError(f"{path}: the {empty} text is empty{reason}")
    return texts


def _first_empty(texts: dict[str, Lines]) -> str | None:
    return next((split for split, lines in texts.items() if not any(line.strip() for line in lines())), None)


def _vocabulary(tokenizer: Tokenizer, texts: dict[str, Lines]) -> Vocabulary:
    """The training text's vocabulary, with `<unk>` if another text needs it."""
    vocabulary = Vocabulary.of(tokenizer, texts["train"])
    if tokenizer.writes_anything:
        return vocabulary
    known = all(vocabulary.knows(line) for split in ("valid", "test") for line in texts[split]())
    return vocabulary if known else vocabulary.with_unknown()


def files_of_split(folder: Path, split: str) -> list[Path]:
    """The one file of a split, or its shards."""
    if found := _there(folder, split):
        return found
    names = [file.name for file in sorted(folder.iterdir()) if file.is_file()]
    raise ValueError(
        f"{folder}: there is no {split} text; expected one of {', '.join(FILE_NAMES[split])} or shards {split}-*.txt, "
        f"also .gz or .xz, found {', '.join(names[:8]) or 'nothing'}"
    )


def _there(folder: Path, split: str) -> list[Path]:
    """The files of a split, none if there are none; a text that is there twice is refused."""
    there = {file.name: file for file in sorted(folder.iterdir()) if file.is_file()}
    endings = tuple(f".txt{ending}" for ending in COMPRESSED)
    shards = [file for name, file in there.items() if name.startswith(f"{split}-") and name.endswith(endings)]
    whole = [there[name + end] for name in FILE_NAMES[split] for end in COMPRESSED if name + end in there]
    if shards and whole:
        raise ValueError(
            f"{folder}: both {whole[0].name} and {shards[0].name} could be the {split} text; keep the whole file or "
            "its shards"
        )
    if len(whole) > 1:
        raise ValueError(
            f"{folder}: both {whole[0].name} and {whole[1].name} could be the {split} text; keep one of them"
        )
    unpacked: dict[str, Path] = {}
    for file in shards:
        other = unpacked.setdefault(file.name.removesuffix(ending_of(file)), file)
        if other is not file:
            raise ValueError(
                f"{folder}: {other.name} and {file.name} are one shard, which is read once; keep one of them"
            )
    return shards or whole


def _read_share(path: Path, block: int, split: str, on_bytes: OnBytes) -> Iterator[str]:
    """The lines of one split of a file that holds all three."""
    # Not the size of the file: line ends may be two bytes there, and are one here.
    size, position = sum(len(line.encode()) for line in text_lines(path, block)), 0
    bounds = [0.0, *SHARES.values()]
    place = SPLITS.index(split)
    for line in text_lines(path, block, on_bytes):
        if bounds[place] <= position / size < bounds[place + 1]:
            yield line
        position += len(line.encode())


def _download(name: str, corpus: PublicCorpus, cache: Path) -> Path:
    """A folder with the text of a public corpus, fetched by `datasets` once."""
    folder = cache / name
    if folder.exists():
        return folder
    load = dataset_loader(name)
    with new_folder(folder) as partial:
        if partial is not None:
            for split, their_name in zip(SPLITS, ("train", "validation", "test"), strict=True):
                rows: Iterable[dict[str, str]] = load(corpus.path, corpus.name, split=their_name)
                with (partial / f"{split}.txt").open("w", encoding="utf-8", newline="\n") as file:
                    file.writelines(row["text"].rstrip("\n") + "\n" for row in rows)
    return folder
