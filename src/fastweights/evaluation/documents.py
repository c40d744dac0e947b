"""Translating sentence after sentence of a document, the decoder's memories carried on: losses and greedy search.

Places are counted from the start of each sentence, as those of its source are; the memories hold what came before.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from fastweights.data.translation_batches import TranslationBatch
from fastweights.data.translation_tokeniser import END, PAD, START
from fastweights.evaluation.translate import Search
from fastweights.memory import LayerState
from fastweights.models.translator import Translator
from fastweights.training.carried_state import States


def read_sentence(
    model: Translator, batch: TranslationBatch, states: Sequence[LayerState] | None
) -> tuple[Tensor, States]:
    """The hidden vectors that predict the labels of a batch, and the memories after it."""
    memories = model.write(model.encode(batch.source, batch.source_mask), batch.source_mask)
    return model.decode(batch.inputs, memories, states, batch.inputs != PAD)


def before_next_sentence(states: Sequence[LayerState]) -> States:
    """The memories after a sentence as those before the next one: places are counted anew."""
    return [replace(state, steps=torch.zeros_like(state.steps)) for state in states]  # type: ignore[call-arg]


@dataclass(frozen=True)
class PlaceLosses:
    """Sums of -log p and numbers of tokens, for every place of a sentence in its document."""

    sums: tuple[float, ...]
    tokens: tuple[int, ...]

    def mean(self, first: int = 0, end: int | None = None) -> float:
        """The loss per token of the sentences from one place to before another."""
        return sum(self.sums[first:end]) / max(sum(self.tokens[first:end]), 1)


@torch.inference_mode()
def losses_by_place(
    model: Translator, batches: Iterable[TranslationBatch], document: int, *, carried: bool
) -> PlaceLosses:
    """-log p of the targets by place in documents of so many sentences; the memories hold the targets before."""
    sums, tokens = [0.0] * document, [0] * document
    device, states = next(model.parameters()).device, None
    for number, batch in enumerate(batches):
        place = number % document
        hidden, after = read_sentence(model, batch.to(device), states if place else None)
        states = before_next_sentence(after) if carried else None
        sums[place] += float(model.losses(hidden, batch.labels.to(device)).double().sum())
        tokens[place] += batch.tokens
    return PlaceLosses(tuple(sums), tuple(tokens))


@torch.inference_mode()
def translate_documents(
    model: Translator, batches: Iterable[TranslationBatch], document: int, *, carried: bool
) -> Iterator[tuple[int, list[int]]]:
    """The number of every pair and the tokens of its translation; the memories hold the translations before."""
    states: States | None = None
    for number, batch in enumerate(batches):
        found, after = search_greedily(model, batch, states if number % document else None)
        states = before_next_sentence(after) if carried else None
        yield from zip(batch.pairs.tolist(), found, strict=True)


def search_greedily(
    model: Translator, batch: TranslationBatch, states: Sequence[LayerState] | None
) -> tuple[list[list[int]], States]:
    """The likeliest tokens up to `</s>`, for every row, and the memories after them."""
    device, search = next(model.parameters()).device, Search(beams=1)
    batch = batch.to(device)
    memories = model.write(model.encode(batch.source, batch.source_mask), batch.source_mask)
    after = list(states) if states is not None else None
    longest = torch.tensor([search.longest(int(length)) for length in batch.source_mask.sum(dim=1)], device=device)
    token = torch.full_like(batch.source[:, :1], START)
    going, found = torch.ones_like(longest, dtype=torch.bool), list[Tensor]()
    while going.any():
        hidden, after = model.decode(token, memories, after, going[:, None])
        token = model.log_probabilities(hidden).argmax(dim=-1)
        token[longest == len(found) + 1] = END
        found.append(token[:, 0].masked_fill(~going, PAD))
        going = going & (token[:, 0] != END)
    assert after is not None
    rows = [[word for word in row if word != PAD] for row in torch.stack(found, dim=1).tolist()]
    return rows, after
