"""Finding and reading sentence pairs, and one clear line for files that cannot be read as such."""

import gzip
import lzma
from collections.abc import Callable
from pathlib import Path

import pytest

from fastweights.data.translation_files import Languages, find_splits

EN_DE = Languages("en", "de")
PAIRS = [("a dog", "ein Hund"), ("a cat", "eine Katze"), ("the house", "das Haus")]


def write(path: Path, *lines: str) -> None:
    content = "".join(f"{line}\n" for line in lines).encode()
    compress: Callable[[bytes], bytes] = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
    path.write_bytes(compress(content))


def write_sides(folder: Path, stem: str, ending: str = "") -> None:
    write(folder / f"{stem}.en{ending}", *(english for english, _ in PAIRS))
    write(folder / f"{stem}.de{ending}", *(german for _, german in PAIRS))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for stem in ("train", "val", "test"):
        write_sides(tmp_path, stem)
    return tmp_path


@pytest.mark.parametrize("ending", ["", ".gz", ".xz"])
def test_two_files_side_by_side(folder: Path, ending: str) -> None:
    for stem in ("train", "val", "test"):
        for language in ("en", "de"):
            (folder / f"{stem}.{language}").unlink()
        write_sides(folder, stem, ending)
    assert [list(files.pairs()) for files in find_splits(folder, EN_DE).values()] == [PAIRS] * 3
    turned = find_splits(folder, Languages("de", "en"))["train"].pairs()
    assert list(turned) == [(german, english) for english, german in PAIRS]


def test_every_test_set_is_found_by_the_name_of_its_files(folder: Path) -> None:
    write_sides(folder, "test_2017_mscoco", ".gz")
    write(folder / "test_only.en", "one side only")
    assert list(find_splits(folder, EN_DE)) == ["train", "val", "test", "test_2017_mscoco"]


@pytest.mark.parametrize("name", ["val", "valid", "dev"])
def test_the_validation_text_has_several_names(folder: Path, name: str) -> None:
    for language in ("en", "de"):
        (folder / f"val.{language}").rename(folder / f"{name}.{language}")
    assert list(find_splits(folder, EN_DE)["val"].pairs()) == PAIRS


def test_columns_are_named_by_the_file_or_source_first(folder: Path) -> None:
    write(folder / "train.de-en.tsv", *(f"{german}\t{english}" for english, german in PAIRS))
    write(folder / "val.tsv.gz", *(f"{english}\t{german}" for english, german in PAIRS))
    splits = find_splits(folder, EN_DE)
    assert splits["train"].source.name == "train.de-en.tsv"
    assert list(splits["train"].pairs()) == list(splits["val"].pairs()) == PAIRS
    assert next(find_splits(folder, Languages("de", "en"))["train"].pairs()) == ("ein Hund", "a dog")


def test_a_single_file_is_cut_ninety_to_five_to_five(tmp_path: Path) -> None:
    file = tmp_path / "pairs.tsv"
    write(file, *(f"s{number}\tt{number}" for number in range(40)))
    pairs = {split: list(files.pairs()) for split, files in find_splits(file, EN_DE).items()}
    assert {split: len(found) for split, found in pairs.items()} == {"train": 36, "val": 2, "test": 2}
    assert pairs["test"] == [("s38", "t38"), ("s39", "t39")]


def test_only_a_line_feed_ends_a_line(folder: Path) -> None:
    (folder / "train.en").write_bytes("\ufeffa\r\nb\u2028c\x0b\x85d\rd\n".encode())
    (folder / "train.de").write_bytes(b"A\r\nB")
    assert list(find_splits(folder, EN_DE)["train"].pairs()) == [("a", "A"), ("b\u2028c\x0b\x85d\rd", "B")]


BROKEN: dict[str, tuple[Callable[[Path], object], str]] = {
    "source longer": (lambda f: write(f / "train.en", *"abcde"), "train.en has 5 lines and .*train.de has 3"),
    "target longer": (lambda f: write(f / "train.de", *"abcde"), "train.en has 3 lines and .*train.de has 5"),
    "empty source": (lambda f: write(f / "train.en", "a", " ", "c"), "train.en: line 2 is empty"),
    "empty target": (lambda f: write(f / "train.de", "a", "b", ""), "train.de: line 3 is empty"),
    "Latin-1": (lambda f: (f / "train.de").write_bytes(b"a\nb\xe4r\nc\n"), "train.de: line 2 is not UTF-8 text"),
    "UTF-16": (lambda f: (f / "train.de").write_bytes("a\nb\nc\n".encode("utf-16")), "line 1 is not UTF-8 text"),
    "three columns": (lambda f: write(f / "train.tsv", "a\tb", "a\tb\tc"), "train.tsv: line 2 has 3 columns"),
    "one column": (lambda f: write(f / "train.tsv", "a b"), "train.tsv: line 1 has 1 columns"),
}


@pytest.mark.parametrize("case", BROKEN)
def test_lines_that_are_no_pairs_are_named(folder: Path, case: str) -> None:
    break_it, message = BROKEN[case]
    break_it(folder)
    with pytest.raises(ValueError, match=message):
        list(find_splits(folder, EN_DE)["train"].pairs())


@pytest.mark.parametrize("ending", [".gz", ".xz"])
def test_a_file_that_was_cut_off_is_named(folder: Path, ending: str) -> None:
    (folder / "train.en").unlink()
    file = folder / f"train.en{ending}"
    write(file, *(str(number) for number in range(1000)))
    for content in (file.read_bytes()[:-20], b"not compressed"):
        file.write_bytes(content)
        with pytest.raises(ValueError, match=f"train.en{ending}: not a readable {ending[1:]} file"):
            list(find_splits(folder, EN_DE)["train"].pairs())


def test_what_is_not_there_is_named(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match=r"no train text from en to fr; expected train.en and train.fr.*nothing.*in fr"
    ):
        find_splits(folder, Languages("en", "fr"))
    (folder / "val.de").unlink()
    with pytest.raises(ValueError, match=r"no val text from en to de; expected val.en and val.de"):
        find_splits(folder, EN_DE)
    with pytest.raises(ValueError, match="no such file or folder"):
        find_splits(tmp_path / "nowhere", EN_DE)
    with pytest.raises(ValueError, match="expected a folder, or a file of two columns"):
        find_splits(folder / "train.en", EN_DE)


@pytest.mark.parametrize(("source", "target"), [("en", "en"), ("", "de"), ("en", "../de"), ("a.b", "de")])
def test_languages_that_cannot_be(source: str, target: str) -> None:
    with pytest.raises(ValueError, match=r"language|target"):
        Languages(source, target)
