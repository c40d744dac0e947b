"""The cache of tokenised text: whole or absent, checked when opened, shared by processes."""

import os
import shutil
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from fastweights.data.cache_folder import default_cache, write_folder
from fastweights.data.text.cache import SPLITS, open_cache, write_cache
from fastweights.data.text.corpus import open_corpus
from fastweights.data.text.tokenizers import Vocabulary, Words


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    texts = {"train": "a b a\n\nc <unk> a\n", "valid": "a b\n", "test": "b dog\nc"}
    made = tmp_path / "my text ü"
    made.mkdir()
    for split, text in texts.items():
        (made / f"{split}.txt").write_text(text, encoding="utf-8")
    return made


def visible(cache: Path) -> set[str]:
    """What is in a cache besides lock files, which stay."""
    return {path.name for path in cache.iterdir() if path.suffix != ".lock"}


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    vocabulary = Vocabulary.of(Words(), lambda: ["a b a\n"])
    splits = {"train": ["a b\n", "b\n"], "valid": ["a\n"], "test": ["b a\n"]}
    folder = write_folder(tmp_path, "key", lambda partial: write_cache(partial, vocabulary, splits))
    found, streams = open_cache(folder)
    assert found == vocabulary
    assert {split: stream.tolist() for split, stream in streams.items()} == {
        "train": [1, 2, 0, 2, 0],
        "valid": [1, 0],
        "test": [2, 1, 0],
    }


def test_more_words_than_two_bytes_can_count_take_four(tmp_path: Path) -> None:
    for size, dtype in ((1 << 16, np.uint16), ((1 << 16) + 1, np.uint32)):
        vocabulary = Vocabulary(Words(), ("<eos>", *(f"w{number}" for number in range(1, size))))
        splits = {split: [f"w{size - 1}\n"] for split in SPLITS}
        folder = write_folder(tmp_path, str(size), partial(write_cache, vocabulary=vocabulary, splits=splits))
        _, streams = open_cache(folder)
        assert streams["train"].dtype == dtype
        assert streams["train"].tolist() == [size - 1, 0]


def test_streams_are_memory_maps_and_a_second_opening_reads_no_text(folder: Path, tmp_path: Path) -> None:
    first = open_corpus(folder, cache=tmp_path / "cache")
    made = (tmp_path / "cache" / first.digest / "train.tokens").stat().st_mtime_ns
    again = open_corpus(folder, cache=tmp_path / "cache")
    assert isinstance(again.train, np.memmap)
    assert again.train.dtype == np.uint16
    assert again.digest == first.digest
    assert (tmp_path / "cache" / first.digest / "train.tokens").stat().st_mtime_ns == made


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
    assert visible(tmp_path / "cache") == set()
    monkeypatch.undo()
    assert len(open_corpus(folder, cache=tmp_path / "cache").train) == 9


def test_two_that_build_the_same_cache_at_once_both_get_it(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second waits, leaves alone what the first is writing, and opens what that has built."""
    started, go_on, places = Event(), Event(), []

    def slowly(place: Path, vocabulary: Vocabulary, splits: Mapping[str, Any]) -> dict[str, Any]:
        places.append(place)
        started.set()
        assert go_on.wait(60)
        return write_cache(place, vocabulary, splits)

    monkeypatch.setattr("fastweights.data.text.corpus.write_cache", slowly)
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(open_corpus, folder, cache=tmp_path / "cache")
        assert started.wait(60)
        second = pool.submit(open_corpus, folder, cache=tmp_path / "cache")
        time.sleep(0.3)
        assert not second.done()
        assert places[0].is_dir()
        go_on.set()
    assert first.result().train.tolist() == second.result().train.tolist() == [1, 2, 1, 0, 0, 3, 4, 1, 0]
    assert len(places) == 1
    assert visible(tmp_path / "cache") == {first.result().digest}


def test_what_a_killed_process_left_is_removed(folder: Path, tmp_path: Path) -> None:
    key = open_corpus(folder, cache=tmp_path / "cache").digest
    for left in (key, f"{key}.partial-of-killed", "other.partial-x"):
        (tmp_path / "cache" / left).mkdir(exist_ok=True)
    shutil.rmtree(tmp_path / "cache" / key)
    open_corpus(folder, cache=tmp_path / "cache")
    assert visible(tmp_path / "cache") == {key, "other.partial-x"}


def test_a_cache_that_is_a_file_is_one_clear_message(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("")
    with pytest.raises(OSError, match=r"cache: cannot write here \(.*\); name another folder"):
        open_corpus(folder, cache=tmp_path / "cache")


def test_the_cache_folder_can_be_chosen(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FASTWEIGHTS_CACHE", str(tmp_path))
    assert default_cache() == tmp_path
    monkeypatch.delenv("FASTWEIGHTS_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert default_cache() == tmp_path / "fastweights"
