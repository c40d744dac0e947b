"""Text before and after a model."""

from pathlib import Path

import pytest

from fastweights.data.text.corpus import open_corpus
from fastweights.data.text.tokenizers import BytePairs, Words
from fastweights.evaluation.prompt import printable, prompt_tokens
from tiny_language_model import write_book


def test_a_prompt_is_continued_and_not_ended(tmp_path: Path) -> None:
    vocabulary = open_corpus(write_book(tmp_path), cache=tmp_path / "cache").vocabulary
    number = vocabulary.token_ids
    assert prompt_tokens(vocabulary, "the cat") == [number["the"], number["cat"]]
    assert prompt_tokens(vocabulary, "the cat\n") == [number["the"], number["cat"], 0]
    assert prompt_tokens(vocabulary, "") == [0]


def test_a_prompt_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """What a shell passes for bytes that are not UTF-8."""
    for tokenizer in (Words(), BytePairs(300)):
        vocabulary = open_corpus(write_book(tmp_path), tokenizer, tmp_path / "cache").vocabulary
        with pytest.raises(ValueError, match="prompt: not UTF-8 text"):
            prompt_tokens(vocabulary, "\udcff the")


def test_generated_text_cannot_steer_a_terminal() -> None:
    assert printable("a\x1b[31mb\x07\n\tŌ戦🙂\x9b") == "a�[31mb�\n\tŌ戦🙂�"
