"""The exported tokenizer: the same ids and texts as our own, the end symbol included, also after loading."""

from pathlib import Path

import pytest
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from fastweights.data.translation_tokeniser import END, PAD, START, JointBytePairs
from fastweights.hf.tokenizer import fast_tokenizer

LINES = ["Zwei Männer im Freien.", "two men, two dogs", "<s> a </s> b <pad>", "don 't", "end ."]
TRAINED = JointBytePairs(300).fit(LINES * 3)


@pytest.fixture(params=["made", "loaded"])
def tokenizer(request: pytest.FixtureRequest, tmp_path: Path) -> PreTrainedTokenizerFast:
    made = fast_tokenizer(TRAINED.model)
    if request.param == "made":
        return made
    made.save_pretrained(tmp_path)
    loaded: PreTrainedTokenizerFast = AutoTokenizer.from_pretrained(tmp_path)
    return loaded


def test_ids_are_our_own_with_the_end_symbol(tokenizer: PreTrainedTokenizerFast) -> None:
    assert tokenizer(LINES)["input_ids"] == [[*ids, END] for ids in TRAINED.encode(LINES)]
    assert tokenizer(text_target=LINES)["input_ids"] == tokenizer(LINES)["input_ids"]


def test_texts_come_back(tokenizer: PreTrainedTokenizerFast) -> None:
    ids = tokenizer(LINES)["input_ids"]
    assert tokenizer.batch_decode(ids, skip_special_tokens=True) == LINES


def test_special_symbols_and_padding(tokenizer: PreTrainedTokenizerFast) -> None:
    assert (tokenizer.pad_token_id, tokenizer.bos_token_id, tokenizer.eos_token_id) == (PAD, START, END)
    batch = tokenizer(["two men", "two"], padding=True)
    assert batch["input_ids"][1][-1] == PAD
    assert batch["attention_mask"] == [[1, 1, 1], [1, 1, 0]]


def test_another_tokenizer_is_refused() -> None:
    with pytest.raises(ValueError, match="expected the symbols of padding, start and end"):
        fast_tokenizer('{"added_tokens": []}')
