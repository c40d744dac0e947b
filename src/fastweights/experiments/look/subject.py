"""The model and the text of `fastweights look`, from the folder of a run or from a Hugging Face folder."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from fastweights.data.text.cache import TokenArray
from fastweights.data.text.corpus import open_corpus
from fastweights.data.text.tokenizers import UNKNOWN, Vocabulary
from fastweights.experiments.load import source_of
from fastweights.files import read_json
from fastweights.models.language_model import LanguageModel

MOST_UNKNOWN = 0.5
"""A text with a larger share of unknown words is refused: it says nothing about the model."""
HF_SEGMENT = 256
"""Tokens that a model whose training is not known reads at a time; it changes no number."""


@dataclass(frozen=True)
class Subject:
    """A model in evaluation mode, the tokens that it will read, what each stands for, and how it was trained."""

    name: str
    model: LanguageModel
    tokens: TokenArray
    symbol: Callable[[int], str]
    text: str
    unit: str
    segment_length: int

    def symbols(self, first: int, last: int) -> list[str]:
        """The text of the tokens from one position to another."""
        return [self.symbol(int(token)) for token in self.tokens[first:last]]


def open_subject(folder: Path, text: Path | None, split: str, limit: int, which: str, data: str | None) -> Subject:
    """The model of a folder and the first `limit` tokens of a text of one's own, or of a split of its data."""
    if limit < 2:
        raise ValueError(f"limit: expected at least 2 tokens, got {limit}")
    if not folder.is_dir():
        raise ValueError(f"{folder}: there is no such folder")
    if text is not None and not text.is_file():
        raise ValueError(f"text: there is no file {text}")
    if (folder / "config.json").is_file() and (folder / "checkpoints").is_dir():
        subject = _of_run(folder, text, split, which, data)
    elif (folder / "config.json").is_file() and list(folder.glob("*.safetensors")):
        subject = _of_hugging_face(folder, text)
    else:
        raise ValueError(f"{folder}: neither the folder of a run nor one that `save_pretrained` wrote")
    tokens = subject.tokens[:limit]
    if len(tokens) < 2:
        raise ValueError(f"{subject.text}: a text of {len(tokens)} {subject.unit}s has nothing to predict")
    return replace(subject, tokens=tokens)


def _of_run(folder: Path, text: Path | None, split: str, which: str, data: str | None) -> Subject:
    from fastweights.experiments.language_models.saved import load_language_model, vocabulary_of

    vocabulary = vocabulary_of(folder)
    model, task, checkpoint = load_language_model(folder, which)
    if text is not None:
        tokens, source = _encoded(text, vocabulary), str(text)
    elif split in ("valid", "test"):
        tokens = open_corpus(data or source_of(folder), vocabulary.tokenizer).split(split)
        source = f"the {split} text of its data"
    else:
        raise ValueError(f"split: expected valid or test, got {split!r}")
    name, symbol = f"{folder.name}, step {checkpoint.step:,}", vocabulary.symbols.__getitem__
    return Subject(name, model, tokens, symbol, source, vocabulary.tokenizer.unit, task.segment_length)


def _of_hugging_face(folder: Path, text: Path | None) -> Subject:
    if text is None:
        raise ValueError(f"{folder}: a Hugging Face folder comes without a text; give one with --text FILE")
    try:
        from fastweights.hf import FastWeightConfig, FastWeightForCausalLM
    except ImportError as error:
        raise ValueError(f"{folder}: Hugging Face folders need pip install 'fastweights[hf]' ({error})") from error
    kind = read_json(folder / "config.json").get("model_type")
    if kind != FastWeightConfig.model_type:
        raise ValueError(f"{folder}: a model of the type {kind!r} is no language model with fast-weight layers")
    size = FastWeightConfig.from_pretrained(folder, local_files_only=True).vocab_size
    vocabulary = folder / "vocabulary.json"
    if not vocabulary.is_file():
        tokens, symbol = _encoded_by_tokenizer(folder, text)
    else:
        known = _vocabulary(vocabulary)
        tokens, symbol = _encoded(text, known), known.symbols.__getitem__
        if len(known.symbols) != size:
            raise ValueError(f"{vocabulary}: it has {len(known.symbols):,} symbols, the model has {size:,}")
    if len(tokens) and int(tokens.max()) >= size:
        raise ValueError(f"{folder}: its tokenizer has symbols that its model does not have")
    model = FastWeightForCausalLM.from_pretrained(folder, local_files_only=True).model.eval()
    return Subject(folder.name, model, tokens, symbol, str(text), "token", HF_SEGMENT)


def _encoded_by_tokenizer(folder: Path, text: Path) -> tuple[TokenArray, Callable[[int], str]]:
    from transformers import AutoTokenizer

    if not (folder / "tokenizer.json").is_file():
        raise ValueError(f"{folder}: it has neither a tokenizer.json nor a vocabulary.json to read the text with")
    content = _read(text)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # whatever is wrong with the file, tokenizers raises what it met there
        raise ValueError(f"{folder}: its tokenizer cannot be read ({type(error).__name__}: {error})") from error
    try:
        tokens = tokenizer(content, add_special_tokens=False, verbose=False)["input_ids"]
    except Exception as error:  # tokenizers raises this very class
        raise ValueError(f"{text}: the tokenizer of {folder} cannot read it ({error})") from error
    refuse_unknown(text, tokens, tokenizer.unk_token_id)
    return np.asarray(tokens, dtype=np.uint32), lambda token: str(tokenizer.decode([token]))


def _vocabulary(path: Path) -> Vocabulary:
    try:
        return Vocabulary.from_json(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error


def _encoded(text: Path, vocabulary: Vocabulary) -> TokenArray:
    content = _read(text)
    try:
        tokens = [token for line in content.splitlines(keepends=True) for token in vocabulary.encode(line)]
    except ValueError as error:
        raise ValueError(f"{text}: {error}") from error
    refuse_unknown(text, tokens, vocabulary.token_ids.get(UNKNOWN))
    return np.asarray(tokens, dtype=np.uint32)


def refuse_unknown(text: Path | str, tokens: Sequence[int], unknown: int | None) -> None:
    """Raise a ValueError if most of the tokens of a text stand for words that the model does not know."""
    share = sum(token == unknown for token in tokens) / len(tokens) if tokens else 0.0
    if share > MOST_UNKNOWN:
        raise ValueError(f"{text}: {share:.0%} of its words are unknown to the model; it was trained on another text")


def _read(text: Path) -> str:
    try:
        return text.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{text}: not UTF-8 text ({error.reason} at byte {error.start})") from error
