"""One byte-level BPE vocabulary for both languages of a translation, with `<pad> <s> </s>` at fixed places."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

SPECIAL = ("<pad>", "<s>", "</s>")
PAD, START, END = range(3)
SMALLEST = len(SPECIAL) + 256


@dataclass(frozen=True)
class JointBytePairs:
    """Byte-pair encoding over the bytes of both languages: any text can be written, and comes back as it was.

    Words get a space in front, so that the first word of a line shares its symbol with the same word inside; a line
    that starts with a space therefore loses it.
    """

    vocabulary_size: int = 4000
    model: str = field(default="", repr=False)
    """The trained tokenizer as the JSON of the tokenizers package; empty before `fit`."""

    def __post_init__(self) -> None:
        if self.vocabulary_size < SMALLEST:
            raise ValueError(
                f"vocabulary_size: expected at least {SMALLEST}, the 256 bytes and {' '.join(SPECIAL)}, "
                f"got {self.vocabulary_size}"
            )

    def fit(self, lines: Iterable[str]) -> "JointBytePairs":
        """The same after it has learned its merges from the lines of both languages."""
        tokenizers = _tokenizers()
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=True)
        # The space that was put in front of the first word is taken away again.
        tokenizer.decoder = tokenizers.decoders.Sequence(
            [tokenizers.decoders.ByteLevel(), tokenizers.decoders.Strip(" ", 1, 0)]
        )
        # The encoder is trained with an end symbol, so whoever encodes a line with this file gets one.
        tokenizer.post_processor = tokenizers.processors.TemplateProcessing(
            single=f"$A {SPECIAL[END]}", special_tokens=[(SPECIAL[END], END)]
        )
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=self.vocabulary_size,
            special_tokens=list(SPECIAL),
            initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        tokenizer.train_from_iterator(lines, trainer)
        return replace(self, model=tokenizer.to_str())

    def __len__(self) -> int:
        return int(self._tokenizer.get_vocab_size())

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        """The token ids of each line, without `<s>` and `</s>`; symbols that a text spells out are plain text."""
        encoded = self._tokenizer.encode_batch(list(lines), add_special_tokens=False)
        return [list(line.ids) for line in encoded]

    def decode(self, sequences: Sequence[Sequence[int]]) -> list[str]:
        """The text of each sequence up to its first `</s>`; the other special symbols write nothing."""
        ended = [_until_end(list(numbers)) for numbers in sequences]
        return list(self._tokenizer.decode_batch(ended, skip_special_tokens=True))

    @cached_property
    def _tokenizer(self) -> Any:
        if not self.model:
            raise ValueError("JointBytePairs: not trained yet; `fit` it to both languages first")
        tokenizer = _tokenizers().Tokenizer.from_str(self.model)
        tokenizer.encode_special_tokens = True
        return tokenizer

    def to_json(self) -> str:
        """What `from_json` reads back."""
        return json.dumps({"vocabulary_size": self.vocabulary_size, "model": self.model}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "JointBytePairs":
        """The tokeniser that `to_json` wrote."""
        try:
            plain = json.loads(text)
            read = cls(int(plain["vocabulary_size"]), str(plain["model"]))
            numbers = [read._tokenizer.token_to_id(symbol) for symbol in SPECIAL]
        # The tokenizers package raises its errors as plain exceptions.
        except Exception as error:
            raise ValueError(f"not a tokeniser of a translation: {type(error).__name__}: {error}") from error
        if numbers != [PAD, START, END]:
            raise ValueError(f"not a tokeniser of a translation: {' '.join(SPECIAL)} stand at {numbers}")
        return read


def _until_end(numbers: list[int]) -> list[int]:
    return numbers[: numbers.index(END)] if END in numbers else numbers


def _tokenizers() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise ValueError("translation needs the tokenizers package: pip install 'fastweights[mt]'") from error
    return tokenizers
