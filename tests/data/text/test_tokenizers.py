"""Text to numbers and back."""

import pytest

from fastweights.data.text.tokenizers import BytePairs, Characters, Vocabulary, Words

TEXT = ["the cat sat on the mat\n", "\n", "the end\n"]


def test_words_are_numbered_by_falling_frequency_after_the_end_of_line() -> None:
    vocabulary = Vocabulary.of(Words(), lambda: TEXT)
    assert vocabulary.symbols == ("<eos>", "the", "cat", "sat", "on", "mat", "end")
    assert vocabulary.encode("the mat sat\n") == [1, 5, 3, 0]
    assert vocabulary.encode("\n") == [0]


def test_an_unknown_word_is_an_error_or_unk() -> None:
    vocabulary = Vocabulary.of(Words(), lambda: TEXT)
    with pytest.raises(ValueError, match="'dog' is not one of the 7 words"):
        vocabulary.encode("the dog")
    assert vocabulary.with_unknown().encode("the dog") == [1, 7, 0]
    assert len(vocabulary.with_unknown().with_unknown()) == 8


def test_case_and_unusual_letters_are_kept() -> None:
    vocabulary = Vocabulary.of(Words(), lambda: ["The the 戦場 Ō\n"])
    assert set(vocabulary.symbols) == {"<eos>", "The", "the", "戦場", "Ō"}


@pytest.mark.parametrize("tokenizer", [Characters(), BytePairs(300)])
@pytest.mark.parametrize("text", ["the cat sat\n", "naïve 戦場 🙂 ŵ\ttab\n", "  two  spaces \n\n"])
def test_characters_and_byte_pairs_give_the_text_back(tokenizer: Characters | BytePairs, text: str) -> None:
    vocabulary = Vocabulary.of(tokenizer, lambda: [*TEXT, text])
    assert "".join(vocabulary.decode(vocabulary.encode(text))) == text


def test_byte_pairs_can_write_what_they_never_saw() -> None:
    vocabulary = Vocabulary.of(BytePairs(260), lambda: TEXT)
    assert "".join(vocabulary.decode(vocabulary.encode("Ω≠🙂"))) == "Ω≠🙂"
    assert len(vocabulary) == 260


def test_frequent_byte_pairs_come_first() -> None:
    vocabulary = Vocabulary.of(BytePairs(300), lambda: ["aaaa bbbb aaaa aaaa\n"] * 10)
    assert vocabulary.symbols.index("Ġaaaa") < vocabulary.symbols.index("Ġbbbb")


def test_words_come_back_line_by_line_as_they_are_generated() -> None:
    vocabulary = Vocabulary.of(Words(), lambda: TEXT)
    assert list(vocabulary.decode([1, 2, 0, 1, 6])) == ["the", " cat", "\n", "the", " end"]


@pytest.mark.parametrize("tokenizer", [Words(), Characters(), BytePairs(300)])
def test_json_gives_the_vocabulary_back(tokenizer: Words | Characters | BytePairs) -> None:
    vocabulary = Vocabulary.of(tokenizer, lambda: TEXT)
    again = Vocabulary.from_json(vocabulary.to_json())
    assert again.symbols == vocabulary.symbols
    assert again.encode(TEXT[0]) == vocabulary.encode(TEXT[0])
    assert repr(again.tokenizer) == repr(vocabulary.tokenizer)


@pytest.mark.parametrize(
    "text", ["", "[]", "{", '{"symbols": [1], "splitter": "words"}', '{"symbols": [], "splitter": "x"}']
)
def test_what_is_no_vocabulary_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a vocabulary|unknown tokenizer"):
        Vocabulary.from_json(text)


def test_a_vocabulary_smaller_than_the_bytes_is_refused() -> None:
    with pytest.raises(ValueError, match="256"):
        BytePairs(255)
