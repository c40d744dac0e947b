"""The vocabulary of a language model in Hugging Face's form: words, characters or byte pairs as a fast tokenizer.

It gives the numbers that the model was trained with, and none of its symbols is special: the one that ends a line also
stands before a text, behind it and for padding, and decoding leaves it in the text.
"""

import json
from typing import Any

from transformers import AutoTokenizer, PreTrainedTokenizerFast
from typing_extensions import override

from fastweights.hf.configuration import FastWeightConfig

UNKNOWN = "<unk>"
END_OF_LINE = "<eos>"


class FastWeightTokenizer(PreTrainedTokenizerFast):
    """A fast tokenizer that leaves every symbol in the text that it decodes, whatever is to be skipped."""

    model_input_names = ["input_ids", "attention_mask"]  # noqa: RUF012  named and typed by transformers

    @override
    def _decode(
        self,
        token_ids: int | list[int],
        skip_special_tokens: bool = False,
        clean_up_tokenization_spaces: bool | None = None,
        **others: Any,
    ) -> str:
        return super()._decode(token_ids, False, False, **others)


def language_tokenizer(kind: str, symbols: tuple[str, ...], model: str, length: int) -> FastWeightTokenizer:
    """The tokenizer with these symbols, in their order, for texts that a model was trained on in parts of `length`.

    `kind` is words, characters or bpe; `model` is the JSON of the trained byte pairs.
    """
    makers = {"words": _words, "characters": _characters, "bpe": _byte_pairs}
    if kind not in makers:
        raise ValueError(f"kind: unknown tokenizer {kind!r}; possible: {', '.join(makers)}")
    numbers = {symbol: number for number, symbol in enumerate(symbols)}
    line_end = {"words": END_OF_LINE, "characters": "\n", "bpe": "Ċ"}[kind]
    boundary = line_end if line_end in numbers else symbols[0]
    return FastWeightTokenizer(
        tokenizer_object=makers[kind](numbers, model),
        bos_token=boundary,
        eos_token=boundary,
        pad_token=boundary,
        unk_token=UNKNOWN if UNKNOWN in numbers else None,
        padding_side="left",
        # A text that spells a symbol out means these letters.
        split_special_tokens=True,
        clean_up_tokenization_spaces=False,
        model_max_length=length,
    )


def _words(numbers: dict[str, int], _: str) -> Any:
    """Words between white space; the end of a line is a word."""
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token=UNKNOWN))
    tokenizer.normalizer = normalizers.Replace("\n", f" {END_OF_LINE} ")
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    # The first writes a space before every word but the first one.
    spaced = decoders.WordPiece(prefix="\0", cleanup=False)
    line_ends = decoders.Replace(Regex(f" ?{END_OF_LINE} ?"), "\n")
    tokenizer.decoder = decoders.Sequence([spaced, decoders.Fuse(), line_ends])
    return tokenizer


def _characters(numbers: dict[str, int], _: str) -> Any:
    from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers

    tokenizer = Tokenizer(models.WordLevel(numbers, unk_token=UNKNOWN))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def _byte_pairs(numbers: dict[str, int], model: str) -> Any:
    """The trained byte pairs with the numbers of the model, which counts them by frequency."""
    from tokenizers import Tokenizer, decoders, pre_tokenizers

    specification = json.loads(model)
    if specification["model"]["vocab"].keys() != numbers.keys():
        raise ValueError("model: the byte pairs have other symbols than the vocabulary")
    specification["model"]["vocab"] = numbers
    tokenizer = Tokenizer.from_str(json.dumps(specification))
    # Line by line, as the text was split for training.
    lines = pre_tokenizers.Split("\n", "merged_with_previous")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([lines, pre_tokenizers.ByteLevel(add_prefix_space=False)])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def register() -> None:
    """Register the tokenizer with `AutoTokenizer`; calling it again changes nothing."""
    AutoTokenizer.register(FastWeightConfig, fast_tokenizer_class=FastWeightTokenizer, exist_ok=True)
