"""Vocabularies as fast tokenizers: the numbers of our own, and texts that come back as they were."""

import json
from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from fastweights.data.text.tokenizers import BytePairs, Characters, Tokenizer, Vocabulary, Words
from fastweights.hf import FastWeightConfig, FastWeightTokenizer
from fastweights.hf.vocabulary_tokenizer import language_tokenizer
from fastweights.models.language_model import LanguageModelConfig

LINES = ["the cat sat on the mat\n", "a dög ran after  the\tcat .\n", "\n", "the mat was <unk> red\n", " \n"] * 8
TEXTS = ["".join(LINES), "the cat", "the cat\n", "\n\nthe mat was\n", "a the\n cat", "cat   mat\t\n\n\n  the"]

TOKENIZERS: dict[str, Tokenizer] = {"words": Words(), "characters": Characters(), "bpe": BytePairs(300)}


def both(name: str) -> tuple[Vocabulary, FastWeightTokenizer]:
    vocabulary = Vocabulary.of(TOKENIZERS[name], lambda: LINES)
    model = vocabulary.tokenizer.model if isinstance(vocabulary.tokenizer, BytePairs) else ""
    return vocabulary, language_tokenizer(name, vocabulary.symbols, model, length=16)


def numbers_of(vocabulary: Vocabulary, text: str) -> list[int]:
    """Line by line, as for training; the last line may have no end."""
    numbers = [number for line in text.splitlines(keepends=True) for number in vocabulary.encode(line)]
    # `Words` ends every line, also one that is not over.
    return numbers if text.endswith("\n") or not isinstance(vocabulary.tokenizer, Words) else numbers[:-1]


@pytest.mark.parametrize("name", TOKENIZERS)
@pytest.mark.parametrize("text", TEXTS)
def test_numbers_and_texts_are_those_of_the_vocabulary(name: str, text: str) -> None:
    vocabulary, tokenizer = both(name)
    numbers = numbers_of(vocabulary, text)
    assert tokenizer(text)["input_ids"] == numbers
    written = "".join(vocabulary.decode(numbers))
    for skip in (False, True):
        assert tokenizer.decode(numbers, skip_special_tokens=skip) == written


@pytest.mark.parametrize("name", TOKENIZERS)
def test_saved_and_loaded_by_name_it_is_the_same(name: str, tmp_path: Path) -> None:
    vocabulary, tokenizer = both(name)
    tokenizer.save_pretrained(tmp_path)
    config = LanguageModelConfig(vocabulary_size=len(vocabulary), model_dim=8, num_heads=2, num_layers=1)
    FastWeightConfig.of(config).save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    assert isinstance(loaded, FastWeightTokenizer)
    assert isinstance(loaded, PreTrainedTokenizerFast)
    for text in TEXTS:
        numbers = numbers_of(vocabulary, text)
        assert loaded(text)["input_ids"] == numbers
        assert loaded.decode(numbers, skip_special_tokens=True) == "".join(vocabulary.decode(numbers))
    assert len(loaded) == len(vocabulary)
    assert loaded.model_max_length == 16


@pytest.mark.parametrize(("name", "symbol"), [("words", "<eos>"), ("characters", "\n"), ("bpe", "Ċ")])
def test_the_end_of_a_line_stands_at_every_boundary(name: str, symbol: str) -> None:
    vocabulary, tokenizer = both(name)
    number = vocabulary.symbols.index(symbol)
    assert tokenizer.bos_token_id == tokenizer.eos_token_id == tokenizer.pad_token_id == number
    batch = tokenizer(["the cat", "cat"], padding=True)
    assert batch["input_ids"][1][0] == number
    assert batch["attention_mask"][1][0] == 0
    assert len({len(row) for row in batch["input_ids"]}) == 1


def test_a_text_that_spells_a_symbol_out_means_its_letters() -> None:
    vocabulary, tokenizer = both("characters")
    text = "<unk>"
    assert tokenizer(text)["input_ids"] == vocabulary.encode(text)


def test_an_unknown_word_is_the_unknown_symbol_and_an_unknown_character_an_error() -> None:
    vocabulary, tokenizer = both("words")
    assert tokenizer("zebra")["input_ids"] == [vocabulary.symbols.index("<unk>")]
    _, characters = both("characters")
    with pytest.raises(Exception, match=r"(?i)missing.*unk"):
        characters("Z")


def test_byte_pairs_of_other_symbols_and_unknown_tokenizers_are_refused() -> None:
    vocabulary, _ = both("bpe")
    assert isinstance(vocabulary.tokenizer, BytePairs)
    with pytest.raises(ValueError, match="the byte pairs have other symbols than the vocabulary"):
        language_tokenizer("bpe", (*vocabulary.symbols, "more"), vocabulary.tokenizer.model, 16)
    with pytest.raises(ValueError, match="unknown tokenizer 'bytes'; possible: words, characters, bpe"):
        language_tokenizer("bytes", ("a",), json.dumps({}), 16)
