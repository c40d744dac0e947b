"""Parallel corpora from folders and by name, and the cache they are read from."""

import shutil
from pathlib import Path

import numpy as np
import pytest

from fastweights.data import translation, translation_download
from fastweights.data.translation import TranslationCorpus, open_translation
from fastweights.data.translation_files import Languages
from fastweights.data.translation_tokeniser import JointBytePairs

EN_DE = Languages("en", "de")
SMALL = JointBytePairs(270)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "my pairs ü"
    made.mkdir()
    for split, count in (("train", 7), ("val", 3), ("test_a", 2), ("test_b", 4)):
        for language, word in (("en", "dog"), ("de", "Hündin ")):
            lines = [f"{word} {split} {'very ' * number}{number}\n" for number in range(count)]
            (made / f"{split}.{language}").write_text("".join(lines), encoding="utf-8")
    return made


def opened(folder: Path, tmp_path: Path, tokeniser: JointBytePairs = SMALL) -> TranslationCorpus:
    return open_translation(folder, EN_DE, tokeniser, tmp_path / "cache")


def test_a_folder_becomes_numbered_pairs(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(translation, "BLOCK", 2)
    corpus = opened(folder, tmp_path)
    assert {name: len(pairs) for name, pairs in corpus.splits.items()} == {
        "train": 7, "val": 3, "test_a": 2, "test_b": 4,
    }  # fmt: skip
    assert corpus.test_names == ("test_a", "test_b")
    for side, name in (("source", "en"), ("target", "de")):
        for split, pairs in corpus.splits.items():
            sentences = getattr(pairs, side)
            expected = (folder / f"{split}.{name}").read_text(encoding="utf-8").splitlines()
            assert corpus.tokeniser.decode([sentences[number].tolist() for number in range(len(sentences))]) == expected
            assert sentences.lengths.tolist() == [len(line) for line in corpus.tokeniser.encode(expected)]


def test_raw_lines_are_kept_for_scoring(folder: Path, tmp_path: Path) -> None:
    corpus = opened(folder, tmp_path)
    assert corpus.lines("test_a") == (
        ["dog test_a 0", "dog test_a very 1"],
        ["Hündin  test_a 0", "Hündin  test_a very 1"],
    )
    (folder / "val.en").write_bytes(b"a dog\rbarks\nit sleeps\n")
    (folder / "val.de").write_bytes("der Hund bellt\nsie\u2028schläft\n".encode())
    assert opened(folder, tmp_path).lines("val") == (
        ["a dog\rbarks", "it sleeps"],
        ["der Hund bellt", "sie\u2028schläft"],
    ), "only a line feed ends a line"
    with pytest.raises(ValueError, match="'train' has no raw lines; possible: val, test_a, test_b"):
        corpus.lines("train")
    with pytest.raises(ValueError, match="unknown name 'test'; possible: train, val, test_a, test_b"):
        corpus.split("test")


def test_joined_pairs_are_the_same_text(folder: Path, tmp_path: Path) -> None:
    corpus = opened(folder, tmp_path)
    whole, two = corpus.train, corpus.train.joined(2)
    assert len(whole) > 2
    assert len(two) == -(-len(whole) // 2)
    for side, single in ((two.source, whole.source), (two.target, whole.target)):
        assert side[0].tolist() == [*single[0], *single[1]]
        assert sum(side.lengths) == sum(single.lengths)
    assert corpus.lines("test_a", 2) == (
        ["dog test_a 0 dog test_a very 1"],
        ["Hündin  test_a 0 Hündin  test_a very 1"],
    )
    assert whole.joined(1) is whole


def test_a_second_opening_reads_memory_maps_and_no_text(folder: Path, tmp_path: Path) -> None:
    first = opened(folder, tmp_path)
    made = (first.folder / "tokeniser.json").stat().st_mtime_ns
    again = opened(folder, tmp_path)
    assert isinstance(again.train.source.tokens, np.memmap)
    assert again.digest == first.digest
    assert (again.folder / "tokeniser.json").stat().st_mtime_ns == made


def test_the_key_is_the_content_the_direction_and_the_tokeniser(folder: Path, tmp_path: Path) -> None:
    moved = Path(shutil.copytree(folder, tmp_path / "elsewhere"))
    assert opened(folder, tmp_path).digest == opened(moved, tmp_path).digest
    keys = {opened(folder, tmp_path).digest, opened(folder, tmp_path, JointBytePairs(271)).digest}
    keys.add(open_translation(folder, Languages("de", "en"), SMALL, tmp_path / "cache").digest)
    (moved / "test_b.de").write_text("a\nb\nc\nd\n", encoding="utf-8")
    keys.add(opened(moved, tmp_path).digest)
    assert len(keys) == 4


def test_a_trained_tokeniser_is_used_as_it_is(folder: Path, tmp_path: Path) -> None:
    trained = SMALL.fit(["Hündin"] * 9)
    assert opened(folder, tmp_path, trained).tokeniser == trained


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("train.de", "only one\n", "train.en has 7 lines and .*train.de has 1"),
        ("test_b.de", "a\nb\n\nd\n", "test_b.de: line 3 is empty"),
        ("val.en", "", "val.en has 0 lines and .*val.de has 3"),
    ],
)
def test_wrong_files_are_one_clear_line_and_no_cache(
    folder: Path, tmp_path: Path, name: str, content: str, message: str
) -> None:
    (folder / name).write_text(content, encoding="utf-8")
    with pytest.raises(ValueError, match=message):
        opened(folder, tmp_path)
    # Lock files stay.
    assert [path for path in (tmp_path / "cache").iterdir() if path.suffix != ".lock"] == []


def test_an_empty_split_is_refused(folder: Path, tmp_path: Path) -> None:
    for language in ("en", "de"):
        (folder / f"val.{language}").write_text("")
    with pytest.raises(ValueError, match="the val text is empty"):
        opened(folder, tmp_path)


@pytest.mark.parametrize("name", ["train.source.tokens", "val.target.txt", "tokeniser.json", "manifest.json"])
def test_a_corrupted_cache_is_noticed(folder: Path, tmp_path: Path, name: str) -> None:
    file = opened(folder, tmp_path).folder / name
    good = file.read_bytes()
    for bad in (b"", good[:-1], bytes([good[0] ^ 1]) + good[1:]):
        file.write_bytes(bad)
        with pytest.raises(ValueError, match="corrupted cache"):
            opened(folder, tmp_path)
    file.unlink()
    with pytest.raises(ValueError, match="corrupted cache"):
        opened(folder, tmp_path)


def wmt14(counts: dict[str, int]) -> object:
    def load(path: str, part: str, split: str) -> list[dict[str, dict[str, str]]]:
        assert (path, part) == ("wmt/wmt14", "de-en")
        rows = [{"translation": {"en": f"en\n{n}", "de": f"de {n}"}} for n in range(counts[split])]
        return [*rows, {"translation": {"en": "", "de": "nothing opposite"}}]

    return load


def test_wmt14_is_fetched_once_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loaders = [wmt14({"train": 5, "validation": 3000, "test": 3003})]
    monkeypatch.setattr(translation_download, "dataset_loader", lambda name: loaders.pop())
    corpus = open_translation("wmt14", EN_DE, SMALL, tmp_path / "cache")
    assert {name: len(pairs) for name, pairs in corpus.splits.items()} == {"train": 5, "val": 3000, "test": 3003}
    assert corpus.lines("val")[0][7] == "en 7"
    turned = open_translation("wmt14", Languages("de", "en"), SMALL, tmp_path / "cache")
    assert turned.lines("val")[0][7] == "de 7"


def test_another_corpus_under_the_name_of_wmt14_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    loader = wmt14({"train": 5, "validation": 3, "test": 3})
    monkeypatch.setattr(translation_download, "dataset_loader", lambda name: loader)
    with pytest.raises(ValueError, match="this is another corpus"):
        open_translation("wmt14", EN_DE, SMALL, tmp_path / "cache")
    with pytest.raises(ValueError, match="it is not there in en-fr; possible: de-en"):
        open_translation("wmt14", Languages("en", "fr"), SMALL, tmp_path / "cache")
