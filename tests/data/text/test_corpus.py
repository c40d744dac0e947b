"""Corpora from folders and files, and the cache they are read from."""

import gzip
import lzma
import os
import shutil
from pathlib import Path

import pytest

from fastweights.data.text.cache import SPLITS
from fastweights.data.text.corpus import PUBLIC, open_corpus
from fastweights.data.text.tokenizers import BytePairs, Characters, Tokenizer, Words

WIKITEXT_2 = Path(os.environ.get("FASTWEIGHTS_WIKITEXT2", "wikitext-2"))


def visible(cache: Path) -> list[str]:
    """What is in a cache besides lock files, which stay."""
    return [path.name for path in cache.glob("*") if path.suffix != ".lock"]


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
@pytest.mark.parametrize("tokenizer", [Characters(), BytePairs(300)])
def test_one_line_of_half_a_megabyte_is_cut_too(tokenizer: Tokenizer, letters: str, tmp_path: Path) -> None:
    file, text = tmp_path / "one-line.txt", letters * (524_288 // len(letters.encode()))
    file.write_text(text, encoding="utf-8")
    corpus = open_corpus(file, tokenizer, tmp_path / "cache")
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
        (
            lambda f: (f / "train.txt").write_text("café", encoding="utf-16"),
            "train.txt: .*it begins like UTF-16: convert",
        ),
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
    assert not visible(tmp_path / "cache")


def test_a_public_corpus_is_fetched_once_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def load(path: str, name: str, split: str) -> list[dict[str, str]]:
        assert (path, name) == ("Salesforce/wikitext", "wikitext-2-v1")
        return [{"text": ""}, {"text": f" = {split} = \n"}]

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("fastweights.data.text.corpus.dataset_loader", lambda name: load)
    with pytest.raises(ValueError, match="the text does not match the published WikiText counts"):
        open_corpus("wikitext-2", cache=tmp_path / "cache")
    assert (tmp_path / "cache" / "wikitext-2" / "valid.txt").read_text() == "\n = validation = \n"


@pytest.mark.slow
@pytest.mark.skipif(not WIKITEXT_2.is_dir(), reason="FASTWEIGHTS_WIKITEXT2 does not name a folder with WikiText-2")
def test_wikitext_2_has_the_known_counts(tmp_path: Path) -> None:
    corpus = open_corpus(WIKITEXT_2, Words(), tmp_path)
    assert (len(corpus.train), len(corpus.valid), len(corpus.test)) == PUBLIC["wikitext-2"].tokens
    assert len(corpus.vocabulary) == 33_278


TEXTS = {"train": "a b c\na b\n" * 20, "valid": "a c\n", "test": "b c\n"}


def compressed(content: str, ending: str) -> bytes:
    return {"": bytes, ".gz": gzip.compress, ".xz": lzma.compress}[ending](content.encode())


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_compressed_texts_are_read_as_they_were(tmp_path: Path, ending: str) -> None:
    for split, content in TEXTS.items():
        (tmp_path / f"{split}.txt{ending}").write_bytes(compressed(content, ending))
    corpus = open_corpus(tmp_path, cache=tmp_path / "cache")
    assert corpus.vocabulary.symbols == ("<eos>", "a", "b", "c")
    assert corpus.train.tolist() == [1, 2, 3, 0, 1, 2, 0] * 20
    assert (corpus.valid.tolist(), corpus.test.tolist()) == ([1, 3, 0], [2, 3, 0])


def test_shards_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    shards = {"train-001.txt.xz": "c d\n", "train-000.txt": "a b\n", "train-002.txt.gz": "a a\n"}
    for name, content in {**shards, "valid.txt": "a\n", "test.txt": "b\n"}.items():
        ending = Path(name).suffix.replace(".txt", "")
        (tmp_path / name).write_bytes(compressed(content, ending))
    corpus = open_corpus(tmp_path, cache=tmp_path / "cache")
    words = [corpus.vocabulary.symbols[number] for number in corpus.train]
    assert words == ["a", "b", "<eos>", "c", "d", "<eos>", "a", "a", "<eos>"]
    (tmp_path / "train-001.txt.xz").write_bytes(compressed("c e\n", ".xz"))
    assert open_corpus(tmp_path, cache=tmp_path / "cache").digest != corpus.digest
    (tmp_path / "train.txt").write_text("a b\n")
    with pytest.raises(ValueError, match=r"both train.txt and train-000.txt could be the train text"):
        open_corpus(tmp_path, cache=tmp_path / "cache")


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (("train-0.txt", "train-0.txt.gz"), "train-0.txt and train-0.txt.gz are one shard, which is read once"),
        (("train.txt", "train.txt.xz"), "both train.txt and train.txt.xz could be the train text; keep one of them"),
        (("train.txt", "wiki.train.tokens"), "both train.txt and wiki.train.tokens could be the train text"),
    ],
)
def test_a_text_that_is_there_twice_is_refused(tmp_path: Path, names: tuple[str, ...], message: str) -> None:
    for name in (*names, "valid.txt", "test.txt"):
        ending = Path(name).suffix.replace(".txt", "").replace(".tokens", "")
        (tmp_path / name).write_bytes(compressed("a b\n", ending))
    with pytest.raises(ValueError, match=message):
        open_corpus(tmp_path, cache=tmp_path / "cache")


def test_one_compressed_file_is_cut_as_the_plain_one(tmp_path: Path) -> None:
    content = "".join(f"line {number % 7}\n" for number in range(200))
    (tmp_path / "book.txt").write_text(content)
    (tmp_path / "book.txt.xz").write_bytes(compressed(content, ".xz"))
    plain, packed = (open_corpus(tmp_path / name, cache=tmp_path / "cache") for name in ("book.txt", "book.txt.xz"))
    for split in ("train", "valid", "test"):
        assert plain.split(split).tolist() == packed.split(split).tolist()


def test_a_damaged_archive_is_named(tmp_path: Path) -> None:
    for split, content in TEXTS.items():
        (tmp_path / f"{split}.txt.xz").write_bytes(compressed(content * 500, ".xz"))
    whole = (tmp_path / "train.txt.xz").read_bytes()
    for damaged in (whole[: len(whole) // 2], b"not compressed at all"):
        (tmp_path / "train.txt.xz").write_bytes(damaged)
        with pytest.raises(ValueError, match=r"train.txt.xz: not a readable xz file"):
            open_corpus(tmp_path, cache=tmp_path / "cache")


@pytest.mark.parametrize("tokenizer", [Words(), Characters(), BytePairs(257)], ids=str)
def test_progress_ends_with_all_that_was_to_be_read(tmp_path: Path, tokenizer: Tokenizer) -> None:
    for split, content in TEXTS.items():
        (tmp_path / f"{split}.txt.gz").write_bytes(compressed(content, ".gz"))
    seen: list[tuple[int, int]] = []
    open_corpus(tmp_path, tokenizer, tmp_path / "cache", lambda done, total: seen.append((done, total)))
    assert seen == sorted(seen)
    assert seen[-1][0] == seen[-1][1]
    again: list[tuple[int, int]] = []
    open_corpus(tmp_path, tokenizer, tmp_path / "cache", lambda done, total: again.append((done, total)))
    assert not again, "the cache is opened without reading the text"
