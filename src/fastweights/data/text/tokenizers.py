"""Text as numbers: words, characters or byte pairs, numbered by falling frequency in the training text.

Adaptive softmax wants frequent symbols first, so the numbering is the same idea for every way of splitting.
"""

import codecs
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

from typing_extensions import override

END_OF_LINE = "<eos>"
UNKNOWN = "<unk>"

Lines = Callable[[], Iterable[str]]
"""Reads a text from its start: whole lines, or blocks of a long one."""


@dataclass(frozen=True)
class Tokenizer(ABC):
    """Splits a line of text into symbols."""

    unit: ClassVar[str]
    """The unit of perplexity: "word", "character", …"""
    longest_block: ClassVar[int]
    """Characters of a line that are read at a time; -1 for all."""
    writes_anything: ClassVar[bool] = False
    """True if its symbols can write every text, seen in training or not."""

    @abstractmethod
    def split(self, line: str) -> list[str]:
        """The symbols of a line."""

    @abstractmethod
    def join(self, symbols: Iterable[str]) -> Iterator[str]:
        """The text of each symbol as it comes, for printing while it is generated."""

    def fit(self, lines: Lines) -> "Tokenizer":
        """The tokenizer trained on the training text."""
        return self

    def alphabet(self) -> Sequence[str]:
        """Symbols that exist whether or not the training text uses them, special ones first."""
        return ()


@dataclass(frozen=True)
class Words(Tokenizer):
    """Words between white space, and `<eos>` after every line: the word level of WikiText."""

    unit: ClassVar[str] = "word"
    longest_block: ClassVar[int] = -1

    @override
    def split(self, line: str) -> list[str]:
        return [*line.split(), END_OF_LINE]

    @override
    def join(self, symbols: Iterable[str]) -> Iterator[str]:
        gap = ""
        for symbol in symbols:
            yield "\n" if symbol == END_OF_LINE else gap + symbol
            gap = "" if symbol == END_OF_LINE else " "

    @override
    def alphabet(self) -> Sequence[str]:
        return (END_OF_LINE,)


@dataclass(frozen=True)
class Characters(Tokenizer):
    """Characters, line ends among them."""

    unit: ClassVar[str] = "character"
    longest_block: ClassVar[int] = 1 << 16

    @override
    def split(self, line: str) -> list[str]:
        return list(line)

    @override
    def join(self, symbols: Iterable[str]) -> Iterator[str]:
        yield from symbols


@dataclass(frozen=True)
class BytePairs(Tokenizer):
    """Byte-pair encoding with Hugging Face tokenizers; any text can be encoded, unseen characters as bytes."""

    vocabulary_size: int = 8192
    model: str = field(default="", repr=False)
    """The trained tokenizer as its own JSON; empty before `fit`."""

    unit: ClassVar[str] = "byte pair"
    longest_block: ClassVar[int] = 1 << 16
    writes_anything: ClassVar[bool] = True

    def __post_init__(self) -> None:
        if self.vocabulary_size < 256:
            raise ValueError(f"vocabulary_size: expected at least the 256 bytes, got {self.vocabulary_size}")

    @override
    def fit(self, lines: Lines) -> "BytePairs":
        tokenizers = _tokenizers()
        tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
        tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
        trainer = tokenizers.trainers.BpeTrainer(
            vocab_size=self.vocabulary_size,
            initial_alphabet=sorted(tokenizers.pre_tokenizers.ByteLevel.alphabet()),
            show_progress=False,
        )
        tokenizer.train_from_iterator(lines(), trainer)
        return replace(self, model=tokenizer.to_str())

    @override
    def split(self, line: str) -> list[str]:
        return list(self._tokenizer.encode(line).tokens)

    @override
    def join(self, symbols: Iterable[str]) -> Iterator[str]:
        # A character may be spread over several symbols: it appears when its last byte does.
        decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
        for symbol in symbols:
            yield decoder.decode(bytes(_BYTE_OF_LETTER[letter] for letter in symbol))

    @override
    def alphabet(self) -> Sequence[str]:
        vocabulary: dict[str, int] = self._tokenizer.get_vocab()
        return sorted(vocabulary, key=lambda symbol: vocabulary[symbol])

    @cached_property
    def _tokenizer(self) -> Any:
        if not self.model:
            raise ValueError("BytePairs: not trained yet; `fit` it to a text first")
        return _tokenizers().Tokenizer.from_str(self.model)


TOKENIZERS: dict[str, type[Tokenizer]] = {"words": Words, "characters": Characters, "bpe": BytePairs}


@dataclass(frozen=True)
class Vocabulary:
    """A tokenizer and its symbols; a symbol's number is its place."""

    tokenizer: Tokenizer
    symbols: tuple[str, ...]

    @classmethod
    def of(cls, tokenizer: Tokenizer, training_text: Lines) -> "Vocabulary":
        """Special symbols first, then by falling frequency; equally frequent ones in the order they appear."""
        tokenizer = tokenizer.fit(training_text)
        counts: Counter[str] = Counter()
        for line in training_text():
            counts.update(tokenizer.split(line))
        alphabet = tokenizer.alphabet()
        special = [symbol for symbol in alphabet if symbol == END_OF_LINE]
        seen = [symbol for symbol, _ in counts.most_common()]
        return cls(tokenizer, tuple(dict.fromkeys([*special, *seen, *alphabet])))

    def __len__(self) -> int:
        return len(self.symbols)

    @cached_property
    def token_ids(self) -> dict[str, int]:
        """The token id of every symbol."""
        return {symbol: number for number, symbol in enumerate(self.symbols)}

    def with_unknown(self) -> "Vocabulary":
        """The same with `<unk>` at the end, if it is not a symbol already."""
        return self if UNKNOWN in self.token_ids else replace(self, symbols=(*self.symbols, UNKNOWN))

    def knows(self, line: str) -> bool:
        """True if every symbol of a line is in the vocabulary."""
        return all(symbol in self.token_ids for symbol in self.tokenizer.split(line))

    def encode(self, line: str) -> list[int]:
        """The token ids of a line; an unknown symbol is `<unk>` if there is one."""
        numbers, symbols = self.token_ids, self.tokenizer.split(line)
        unknown = numbers.get(UNKNOWN)
        if unknown is not None:
            return [numbers.get(symbol, unknown) for symbol in symbols]
        try:
            return [numbers[symbol] for symbol in symbols]
        except KeyError as error:
            raise ValueError(
                f"{error.args[0]!r} is not one of the {len(self)} {self.tokenizer.unit}s of the training text, "
                f"and the vocabulary has no {UNKNOWN}"
            ) from None

    def decode(self, numbers: Iterable[int]) -> Iterator[str]:
        """The text of each token as it comes."""
        return self.tokenizer.join(self.symbols[number] for number in numbers)

    def to_json(self) -> str:
        """A JSON text that `from_json` reads back."""
        name = next(name for name, tokenizer in TOKENIZERS.items() if isinstance(self.tokenizer, tokenizer))
        plain: dict[str, Any] = {"splitter": name, "symbols": self.symbols}
        if isinstance(self.tokenizer, BytePairs):
            plain |= {"vocabulary_size": self.tokenizer.vocabulary_size, "model": self.tokenizer.model}
        return json.dumps(plain, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str) -> "Vocabulary":
        """The vocabulary that `to_json` wrote."""
        try:
            plain = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"not a vocabulary: {type(error).__name__}") from error
        symbols = plain.get("symbols") if isinstance(plain, dict) else None
        if not isinstance(symbols, list) or not all(isinstance(symbol, str) for symbol in symbols):
            raise ValueError("not a vocabulary: it has no list of symbols")
        if plain.get("splitter") not in TOKENIZERS:
            raise ValueError(f"unknown tokenizer {plain.get('splitter')!r}; possible: {', '.join(TOKENIZERS)}")
        if plain["splitter"] == "bpe":
            return cls(BytePairs(int(plain.get("vocabulary_size", 0)), str(plain.get("model", ""))), tuple(symbols))
        return cls(TOKENIZERS[plain["splitter"]](), tuple(symbols))


def _letters() -> Iterator[tuple[str, int]]:
    """The letter that byte-level BPE writes for each byte: printable ones themselves, the rest from U+0100 on."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    hidden = [byte for byte in range(256) if byte not in printable]
    yield from ((chr(byte), byte) for byte in printable)
    yield from ((chr(256 + place), byte) for place, byte in enumerate(hidden))


_BYTE_OF_LETTER = dict(_letters())


def _tokenizers() -> Any:
    try:
        import tokenizers
    except ImportError as error:
        raise ValueError("byte pairs need the tokenizers package: pip install 'fastweights[hf]'") from error
    return tokenizers
