"""Translating text: lines in, lines out, in order and as a stream, by the beam search of Hugging Face's `generate`."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch import Tensor

from fastweights.config import require_at_least
from fastweights.data.translation_tokeniser import END, PAD, START, JointBytePairs
from fastweights.models.translator import Translator


@dataclass(frozen=True)
class Search:
    """How translations are searched for: by log p / length^`length_penalty` among `beams` hypotheses; one is greedy.

    Each group of `window` lines is sorted by length and cut into batches of at most `batch_tokens` source tokens,
    padding included. A translation has at most `longest_ratio` tokens for each of the source, and `longest_extra`.
    """

    beams: int = 4
    length_penalty: float = 0.6
    batch_tokens: int = 2000
    window: int = 1024
    longest_ratio: float = 2.0
    longest_extra: int = 20

    def __post_init__(self) -> None:
        require_at_least(1, self, "beams", "batch_tokens", "window")
        if not math.isfinite(self.length_penalty):
            raise ValueError(f"length_penalty: expected a finite number, got {self.length_penalty}")
        if self.longest_ratio < 0 or self.longest_extra < 1:
            raise ValueError(
                f"longest_ratio and longest_extra: expected at least 0 and 1, got {self.longest_ratio} and "
                f"{self.longest_extra}"
            )

    def longest(self, source_tokens: int) -> int:
        """The most tokens that the translation of so many may have, `</s>` included."""
        return int(self.longest_ratio * source_tokens) + self.longest_extra


@dataclass(frozen=True)
class Translation:
    """One line: its translation, and log p(translation | source) if it was asked for."""

    text: str
    log_probability: float | None = None


def translate(
    model: Translator,
    tokeniser: JointBytePairs,
    lines: Iterable[str],
    search: Search = Search(),  # noqa: B008  a frozen value
    *,
    scores: bool = False,
) -> Iterator[Translation]:
    """A translation for each line, in order; that of an empty line is empty.

    A line's translation does not depend on the lines beside it.
    """
    wrapped, training = _hugging_face_model(model), model.training
    model.eval()
    stream = iter(lines)
    try:
        while window := [line.rstrip("\r\n") for line in islice(stream, search.window)]:
            yield from _translate_window(wrapped, tokeniser, window, search, scores)
    finally:
        model.train(training)


def hypotheses(
    model: Translator,
    tokeniser: JointBytePairs,
    line: str,
    search: Search = Search(),  # noqa: B008  a frozen value
) -> list[tuple[list[int], Translation]]:
    """All hypotheses that a search ends with, best first, each with its tokens from after `<s>` to `</s>`."""
    if not line.strip():
        raise ValueError("line: there is nothing to translate in it")
    wrapped, training = _hugging_face_model(model), model.training
    model.eval()
    try:
        source = tokeniser.encode([line])[0]
        found = _generate(wrapped, [source], search, search.beams)
        scores = _log_probabilities(model, [source] * len(found), found)
    finally:
        model.train(training)
    texts = [text.replace("\n", " ").replace("\r", " ") for text in tokeniser.decode(found)]
    return [(tokens, Translation(text, score)) for tokens, text, score in zip(found, texts, scores, strict=True)]


def _translate_window(
    wrapped: Any, tokeniser: JointBytePairs, lines: Sequence[str], search: Search, scores: bool
) -> list[Translation]:
    found = [Translation("", 0.0 if scores else None)] * len(lines)
    encoded = dict(enumerate(tokeniser.encode(lines)))
    numbers = sorted((number for number, line in enumerate(lines) if line.strip()), key=lambda n: len(encoded[n]))
    for batch in _batches(numbers, encoded, search):
        translations = _generate(wrapped, [encoded[number] for number in batch], search)
        values: Sequence[float | None] = [None] * len(batch)
        if scores:
            values = _log_probabilities(wrapped.model, [encoded[number] for number in batch], translations)
        for number, tokens, value in zip(batch, translations, values, strict=True):
            # One line for a line, whatever the model writes.
            text = tokeniser.decode([tokens])[0].replace("\n", " ").replace("\r", " ")
            found[number] = Translation(text, value)
    return found


def _batches(numbers: Sequence[int], encoded: dict[int, list[int]], search: Search) -> Iterator[list[int]]:
    """Lines of similar length, as many as the budget allows and at least one."""
    batch: list[int] = []
    for number in numbers:
        if batch and (len(batch) + 1) * (len(encoded[number]) + 1) > search.batch_tokens:
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def _generate(wrapped: Any, sources: Sequence[Sequence[int]], search: Search, returned: int = 1) -> list[list[int]]:
    """The best hypotheses for each source, `returned` of them after each other, from after `<s>` to `</s>`."""
    from transformers import LogitsProcessorList

    source, mask = _padded([[*tokens, END] for tokens in sources], wrapped.device)
    longest = torch.tensor([search.longest(len(tokens) + 1) for tokens in sources], device=wrapped.device)
    found = wrapped.generate(
        source,
        attention_mask=mask.long(),
        num_beams=search.beams,
        num_return_sequences=returned,
        # One hypothesis is compared with no other, and transformers warns of a penalty without use.
        length_penalty=search.length_penalty if search.beams > 1 else None,
        do_sample=False,
        max_new_tokens=int(longest.max()),
        logits_processor=LogitsProcessorList([_EndAtLimit(longest)]),
    )
    return [_until_end(row) for row in found[:, 1:].tolist()]


class _EndAtLimit:
    """Leaves `</s>` as the only choice for a sentence's last token, so that lengths do not depend on other rows."""

    def __init__(self, longest: Tensor) -> None:
        self.longest = longest

    def __call__(self, input_ids: Tensor, scores: Tensor) -> Tensor:
        # So many tokens follow `<s>` after this choice; the hypotheses of a sentence are rows after each other.
        ends = input_ids.shape[1] >= self.longest.repeat_interleave(len(input_ids) // len(self.longest))
        if not ends.any():
            return scores
        others = torch.arange(scores.shape[1], device=scores.device) != END
        return scores.masked_fill(ends[:, None] & others, -torch.inf)


@torch.inference_mode()
def _log_probabilities(
    model: Translator, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
) -> list[float]:
    """log p(target | source) of each pair."""
    device = model.embedding.table.device
    source, source_mask = _padded([[*tokens, END] for tokens in sources], device)
    labels, real = _padded(targets, device)
    inputs = torch.cat([torch.full_like(labels[:, :1], START), labels[:, :-1]], dim=1)
    hidden = model(source, inputs, source_mask)
    losses = torch.zeros(labels.shape, dtype=torch.float64, device=device)
    losses[real] = model.losses(hidden, labels.masked_fill(~real, -1)).double()
    return [-float(loss) for loss in losses.sum(dim=1)]


def _padded(rows: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """Rows of token ids filled up with padding, and which of them are real."""
    tokens = torch.nn.utils.rnn.pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_value=PAD)
    lengths = torch.tensor([len(row) for row in rows])
    return tokens.to(device), (torch.arange(tokens.shape[1]) < lengths[:, None]).to(device)


def _until_end(tokens: list[int]) -> list[int]:
    return tokens[: tokens.index(END) + 1] if END in tokens else tokens


def _hugging_face_model(model: Translator) -> Any:
    try:
        from fastweights.hf.seq2seq_lm import FastWeightForSeq2SeqLM
    except ImportError as error:
        raise ValueError("translating needs the transformers package: pip install 'fastweights[mt]'") from error
    return FastWeightForSeq2SeqLM.of(model)
