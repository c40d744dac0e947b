"""The joint vocabulary: fixed special symbols, text that comes back exactly, and an end symbol for every reader."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fastweights.data.translation_tokeniser import END, PAD, START, JointBytePairs

LINES = ["Zwei Männer im Freien.", "Two men outside.", "two men, two dogs", "Männer und Männer"] * 5
TRAINED = JointBytePairs(290).fit(LINES)


def test_special_symbols_stand_first() -> None:
    symbols = json.loads(TRAINED.model)["model"]["vocab"]
    assert {symbol: symbols[symbol] for symbol in ("<pad>", "<s>", "</s>")} == {"<pad>": 0, "<s>": 1, "</s>": 2}
    assert (PAD, START, END) == (0, 1, 2)
    assert len(TRAINED) == len(symbols) == 290


def test_both_languages_are_learnt() -> None:
    symbols = json.loads(TRAINED.model)["model"]["vocab"]
    assert "ĠMÃ¤nner" in symbols
    assert "Ġmen" in symbols


def test_the_first_word_of_a_line_is_the_same_symbol_as_inside() -> None:
    (first,), (_, inside) = TRAINED.encode(["men", "two men"])
    assert first == inside


@given(st.text(alphabet=st.characters(exclude_categories=["Cs"]), min_size=1))
def test_any_text_comes_back(text: str) -> None:
    (numbers,) = TRAINED.encode([text])
    (back,) = TRAINED.decode([numbers])
    assert back == text.removeprefix(" ") if text.startswith(" ") else back == text


def test_symbols_that_a_text_spells_out_are_text() -> None:
    text = "<s> a </s> b <pad>"
    (numbers,) = TRAINED.encode([text])
    assert not {PAD, START, END} & set(numbers)
    assert TRAINED.decode([numbers]) == [text]


def test_decoding_ends_at_the_end_symbol() -> None:
    (numbers,) = TRAINED.encode(["two men"])
    assert TRAINED.decode([[START, *numbers, END, PAD, *numbers], [END], []]) == ["two men", "", ""]


def test_json_gives_the_same_back() -> None:
    again = JointBytePairs.from_json(TRAINED.to_json())
    assert again == TRAINED
    assert again.encode(LINES) == TRAINED.encode(LINES)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"vocabulary_size": 300, "model": "{}"}', "[" * 100_000])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a tokeniser of a translation"):
        JointBytePairs.from_json(text)


def test_a_tokeniser_with_other_special_symbols_is_refused() -> None:
    other = json.loads(TRAINED.model)
    vocabulary = other["model"]["vocab"]
    vocabulary["<pad>"], vocabulary["<s>"] = 1, 0
    for token in other["added_tokens"]:
        token["id"] = vocabulary[token["content"]]
    with pytest.raises(ValueError, match=r"<pad> <s> </s> stand at \[1, 0, 2\]"):
        JointBytePairs.from_json(json.dumps({"vocabulary_size": 300, "model": json.dumps(other)}))


def test_too_small_and_untrained() -> None:
    with pytest.raises(ValueError, match="expected at least 259"):
        JointBytePairs(258)
    with pytest.raises(ValueError, match="not trained yet"):
        JointBytePairs().encode(["a"])
