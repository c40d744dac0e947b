"""Corpora from folders and files, and the cache they are read from."""

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from fastweights.data.text.cache import SPLITS, default_cache, write_cache
from fastweights.data.text.corpus import PUBLIC, open_corpus
from fastweights.data.text.tokenizers import BytePairs, Characters, Splitter, Vocabulary, Words

WIKITEXT_2 = Path(os.environ.get("FASTWEIGHTS_WIKITEXT2", "wikitext-2"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {"train": "a b a\n\nc <unk> a\n", "valid": "a b\n", "test": "b dog\nc"}
    made = tmp_path / "my text ü"
    made.mkdir()
    for split, text in texts.items():
        (made / f"{split}.txt").write_text(text, encoding="utf-8")
    return made


def test_a_folder_becomes_three_streams(folder: Path, tmp_path: Path) -> None:
    corpus = open_corpus(folder, cache=tmp_path / "cache")
    assert corpus.vocabulary.symbols == ("<eos>", "a", "b", "c", "<unk>")
    assert corpus.train.tolist() == [1, 2, 1, 0, 0, 3, 4, 1, 0]
    assert corpus.valid.tolist() == [1, 2, 0]
    assert corpus.test.tolist() == [2, 4, 0, 3, 0]


def test_streams_are_memory_maps_and_a_second_opening_reads_no_text(folder: Path, tmp_path: Path) -> None:
    first = open_corpus(folder, cache=tmp_path / "cache")
    made = (tmp_path / "cache" / first.digest / "train.tokens").stat().st_mtime_ns
    again = open_corpus(folder, cache=tmp_path / "cache")
    assert isinstance(again.train, np.memmap)
    assert again.train.dtype == np.uint16
    assert again.digest == first.digest
    assert (tmp_path / "cache" / first.digest / "train.tokens").stat().st_mtime_ns == made


def test_the_key_is_the_content_and_the_way_of_splitting(folder: Path, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    moved = Path(shutil.copytree(folder, tmp_path / "elsewhere"))
    keys = {open_corpus(where, cache=cache).digest for where in (folder, moved)}
    assert len(keys) == 1
    keys.add(open_corpus(folder, Characters(), cache).digest)
    keys.update(open_corpus(folder, BytePairs(size), cache).digest for size in (257, 258))
    (moved / "valid.txt").write_text("a c\n", encoding="utf-8")
    keys.add(open_corpus(moved, cache=cache).digest)
    assert len(keys) == 5


def test_wikitext_names_are_found_too(folder: Path, tmp_path: Path) -> None:
    expected = open_corpus(folder, cache=tmp_path / "cache").digest
    for split in ("train", "valid", "test"):
        (folder / f"{split}.txt").rename(folder / f"wiki.{split}.tokens")
    assert open_corpus(folder, cache=tmp_path / "cache").digest == expected


def test_unk_is_added_only_where_it_is_needed(folder: Path, tmp_path: Path) -> None:
    (folder / "train.txt").write_text("a b c\n", encoding="utf-8")
    assert open_corpus(folder, cache=tmp_path / "cache").vocabulary.symbols[-1] == "<unk>"
    (folder / "test.txt").write_text("b c\n", encoding="utf-8")
    assert "<unk>" not in open_corpus(folder, cache=tmp_path / "cache").vocabulary.symbols


def test_a_single_file_is_cut_at_line_ends(tmp_path: Path) -> None:
    lines = [f"line {number:03d}\n" for number in range(100)]
    file = tmp_path / "book.txt"
    file.write_text("".join(lines), encoding="utf-8")
    corpus = open_corpus(file, Characters(), tmp_path / "cache")
    texts = [
        "".join(corpus.vocabulary.decode(int(n) for n in corpus.split(name))) for name in ("train", "valid", "test")
    ]
    assert texts == ["".join(lines[:90]), "".join(lines[90:95]), "".join(lines[95:])]


def test_a_file_from_another_system_is_the_same_text(tmp_path: Path) -> None:
    lines = [f"{number % 7}" for number in range(100)]
    texts = []
    for start, end in (("", "\n"), ("\ufeff", "\r\n")):
        file = tmp_path / f"book{len(end)}.txt"
        file.write_bytes((start + "".join(line + end for line in lines)).encode())
        corpus = open_corpus(file, Characters(), tmp_path / "cache")
        texts.append([corpus.split(name).tolist() for name in ("train", "valid", "test")])
    assert texts[0] == texts[1]
    assert [len(split) for split in texts[0]] == [180, 10, 10]


def test_one_endless_line_is_cut_in_blocks(tmp_path: Path) -> None:
    file = tmp_path / "text8"
    file.write_text("abcd " * 300_000, encoding="utf-8")
    corpus = open_corpus(file, Characters(), tmp_path / "cache")
    assert len(corpus.train) + len(corpus.valid) + len(corpus.test) == 1_500_000
    assert len(corpus.train) == 21 * Characters.longest_block
    assert min(len(corpus.valid), len(corpus.test)) > 0


@pytest.mark.parametrize("letters", ["abcd ", "戦🙂 "])
@pytest.mark.parametrize("splitter", [Characters(), BytePairs(300)])
def test_one_line_of_half_a_megabyte_is_cut_too(splitter: Splitter, letters: str, tmp_path: Path) -> None:
    file, text = tmp_path / "one-line.txt", letters * (524_288 // len(letters.encode()))
    file.write_text(text, encoding="utf-8")
    corpus = open_corpus(file, splitter, tmp_path / "cache")
    splits = ["".join(corpus.vocabulary.decode(int(n) for n in corpus.split(name))) for name in SPLITS]
    assert "".join(splits) == text
    assert [len(split) / len(text) for split in splits] == pytest.approx([0.9, 0.05, 0.05], abs=0.02)


def test_one_line_of_words_cannot_be_cut(tmp_path: Path) -> None:
    file = tmp_path / "one-line.txt"
    file.write_text("abcd " * 100_000, encoding="utf-8")
    with pytest.raises(ValueError, match="the valid text is empty; a file is cut at line ends, this has too few"):
        open_corpus(file, Words(), tmp_path / "cache")
    file.write_text("short", encoding="utf-8")
    with pytest.raises(ValueError, match="the valid text is empty; the file is too short"):
        open_corpus(file, Characters(), tmp_path / "cache")


@pytest.mark.parametrize(
    ("break_it", "message"),
    [
        (lambda f: (f / "valid.txt").unlink(), "there is no valid text; expected one of valid.txt"),
        (lambda f: (f / "train.txt").write_text(""), "the train text is empty"),
        (lambda f: (f / "test.txt").write_text(" \n\n"), "the test text is empty"),
        (lambda f: (f / "train.txt").write_bytes(b"caf\xe9 \xff"), "train.txt: not UTF-8 text"),
        (lambda f: shutil.rmtree(f), "no such file or folder; possible: a folder with train.txt"),
        (lambda f: [file.unlink() for file in f.iterdir()], "found nothing"),
        (lambda f: (shutil.rmtree(f), os.mkfifo(f)), "neither a folder nor a file"),
    ],
)
def test_a_wrong_folder_gives_one_clear_message_and_no_cache(
    folder: Path, tmp_path: Path, break_it: object, message: str
) -> None:
    break_it(folder)  # type: ignore[operator]
    with pytest.raises(ValueError, match=message):
        open_corpus(folder, cache=tmp_path / "cache")
    assert not list((tmp_path / "cache").glob("*")) if (tmp_path / "cache").exists() else True


@pytest.mark.parametrize("name", ["train.tokens", "vocabulary.json", "manifest.json"])
def test_a_corrupted_cache_is_noticed_and_not_overwritten(folder: Path, tmp_path: Path, name: str) -> None:
    corpus = open_corpus(folder, cache=tmp_path / "cache")
    file = tmp_path / "cache" / corpus.digest / name
    good = file.read_bytes()
    for bad in (
        b"",
        good[:-1],
        good + b" x",
        bytes([good[0] ^ 1]) + good[1:],
        good[:-2] + bytes([good[-2] ^ 64]) + good[-1:],
    ):
        file.write_bytes(bad)
        with pytest.raises(ValueError, match="corrupted cache"):
            open_corpus(folder, cache=tmp_path / "cache")
        assert file.read_bytes() == bad
    file.unlink()
    with pytest.raises(ValueError, match="corrupted cache"):
        open_corpus(folder, cache=tmp_path / "cache")


def test_a_build_that_fails_leaves_nothing(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        open_corpus(folder, cache=tmp_path / "cache")
    assert list((tmp_path / "cache").iterdir()) == []
    monkeypatch.undo()
    assert len(open_corpus(folder, cache=tmp_path / "cache").train) == 9


def test_two_that_build_the_same_cache_at_once_both_get_it(folder: Path, tmp_path: Path) -> None:
    """The second finds the first one's cache in its place when it is done."""
    first = open_corpus(folder, cache=tmp_path / "cache")
    splits = {split: [f"{split}\n"] for split in SPLITS}
    write_cache(tmp_path / "cache", first.digest, Vocabulary.of(Words(), lambda: ["train valid test\n"]), splits)
    assert open_corpus(folder, cache=tmp_path / "cache").train.tolist() == first.train.tolist()
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [first.digest]


def test_what_a_killed_process_left_is_removed(folder: Path, tmp_path: Path) -> None:
    key = open_corpus(folder, cache=tmp_path / "cache").digest
    for left in (key, f"{key}.partial-of-killed", "other.partial-x"):
        (tmp_path / "cache" / left).mkdir(exist_ok=True)
    shutil.rmtree(tmp_path / "cache" / key)
    open_corpus(folder, cache=tmp_path / "cache")
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {key, "other.partial-x"}


def test_what_a_living_process_writes_is_left_alone(tmp_path: Path) -> None:
    vocabulary = Vocabulary.of(Words(), lambda: ["a\n"])
    splits = {split: ["a\n"] for split in SPLITS}

    def written_meanwhile() -> Iterator[str]:
        yield "a\n"
        write_cache(tmp_path, "key", vocabulary, splits)

    write_cache(tmp_path, "key", vocabulary, {**splits, "valid": written_meanwhile()})
    assert [path.name for path in tmp_path.iterdir()] == ["key"]


def test_a_cache_that_is_a_file_is_one_clear_message(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(OSError, match="cannot write the cache here"):
        open_corpus(folder, cache=tmp_path / "cache")


def test_the_cache_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FASTWEIGHTS_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("FASTWEIGHTS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "fastweights"


def test_a_public_corpus_is_fetched_once_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(path: str, name: str, split: str) -> list[dict[str, str]]:
        assert (path, name) == ("Salesforce/wikitext", "wikitext-2-v1")
        return [{"text": ""}, {"text": f" = {split} = \n"}]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fastweights.data.text.corpus._load_dataset", lambda name: load)
    with pytest.raises(ValueError, match="this is another text"):
        open_corpus("wikitext-2", cache=tmp_path / "cache")
    assert (tmp_path / "cache" / "wikitext-2" / "valid.txt").read_text() == "\n = validation = \n"


@pytest.mark.slow
@pytest.mark.skipif(not WIKITEXT_2.is_dir(), reason="FASTWEIGHTS_WIKITEXT2 does not name a folder with WikiText-2")
def test_wikitext_2_has_the_known_counts(tmp_path: Path) -> None:
    corpus = open_corpus(WIKITEXT_2, Words(), tmp_path)
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == PUBLIC["wikitext-2"].tokens
    assert len(corpus.vocabulary) == 33_278
