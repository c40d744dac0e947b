"""A translation tokeniser in Hugging Face's form: what `AutoTokenizer` reads beside the model."""

import json
from typing import Any

from transformers import PreTrainedTokenizerFast


def fast_tokenizer(model: str) -> PreTrainedTokenizerFast:
    """The tokenizer whose JSON is given, with its first three symbols as padding, start and end.

    The end symbol is appended to every text, as the encoder was trained with; symbols that a text spells out stay text.
    """
    from tokenizers import Tokenizer

    added: list[dict[str, Any]] = sorted(json.loads(model)["added_tokens"], key=lambda token: int(token["id"]))
    if [token["id"] for token in added[:3]] != [0, 1, 2]:
        raise ValueError("tokenizer: expected the symbols of padding, start and end at 0, 1 and 2")
    pad, start, end = (token["content"] for token in added[:3])
    return PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(model),
        pad_token=pad,
        bos_token=start,
        eos_token=end,
        padding_side="right",
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
        model_input_names=["input_ids", "attention_mask"],
    )
