"""Reading a text with a language model: how surprised it is, how strongly each token writes, and what that erases."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import torch
from torch import Tensor

from fastweights.data.text.tokenizers import UNKNOWN, Vocabulary
from fastweights.evaluation.prompt import printable, prompt_tokens
from fastweights.evaluation.sampling import Sampling, generate
from fastweights.experiments.look.subject import refuse_unknown
from fastweights.memory import Observation, observe
from fastweights.memory.influence import influences
from fastweights.memory.layer_trace import LayerTrace
from fastweights.models.language_model import LanguageModel
from fastweights.reporting import layer_label

MOST_CHARACTERS, MOST_TOKENS, MOST_GENERATED = 20_000, 1024, 300
SPECTRA = 32
"""How often the singular values of the memories are taken."""
ERASURES = 5
"""Strongest erasures that are kept of every token."""


@dataclass(frozen=True)
class Erasure:
    """A token took this share of what an earlier one had written, in one head of one layer."""

    share: float
    earlier: int
    layer: str
    head: int


@dataclass(frozen=True)
class Occupancy:
    """A layer's memory over time: effective rank and size, mean over heads, by the number of writes."""

    layer: str
    ranks: tuple[tuple[int, float], ...]
    sizes: tuple[tuple[int, float], ...]


@dataclass(frozen=True)
class TextReading:
    """What a model made of a text."""

    text: str
    tokens: tuple[int, ...]
    symbols: tuple[str, ...]
    surprises: tuple[float | None, ...]
    """-log p of every token, given those before it; None for the first."""
    layers: tuple[str, ...]
    strengths: tuple[Tensor, ...]
    """β of every layer, heads × tokens; of a rule with several writes per token, their mean."""
    erasures: tuple[tuple[Erasure, ...], ...]
    """For every token, strongest first."""
    occupancy: tuple[Occupancy, ...]


@torch.inference_mode()
def read_text(model: LanguageModel, vocabulary: Vocabulary, text: str) -> TextReading:
    """Read a text from an empty memory, once; a ValueError says why it cannot be read."""
    tokens = encode(vocabulary, text)
    inputs, shown = torch.tensor(tokens)[None], dict[str, Observation]()
    with observe(model, lambda name: lambda observation: shown.update({name: observation})):
        hidden, _ = model(inputs)
    losses = model.losses(hidden[:, :-1], inputs[:, 1:])[0].tolist()
    count = len(tokens)
    strengths, occupancy, erasures = [], [], [list[Erasure]() for _ in tokens]
    for name, observation in shown.items():
        trace = LayerTrace(spectra_every=max(count // SPECTRA, 1))
        trace(observation)
        strengths.append(trace["strength"][0].unflatten(-1, (count, -1)).mean(dim=-1))
        occupancy.append(_occupancy(layer_label(name), trace))
        for token, found in _erasures(observation, layer_label(name), count):
            erasures[token].append(found)
    return TextReading(
        text,
        tuple(tokens),
        tuple(printable(vocabulary.symbols[token]) for token in tokens),
        (None, *losses),
        tuple(map(layer_label, shown)),
        tuple(strengths),
        tuple(tuple(sorted(found, key=lambda e: -e.share)[:ERASURES]) for found in erasures),
        tuple(occupancy),
    )


def encode(vocabulary: Vocabulary, text: str) -> list[int]:
    """The tokens of a text that is neither too long nor foreign to the model."""
    if len(text) > MOST_CHARACTERS:
        raise ValueError(f"text: {len(text):,} characters; at most {MOST_CHARACTERS:,} are read")
    tokens = prompt_tokens(vocabulary, text)
    if not text.strip() or len(tokens) < 2:
        raise ValueError("text: at least two tokens are needed, so that there is something to predict")
    if len(tokens) > MOST_TOKENS:
        raise ValueError(f"text: {len(tokens):,} tokens; at most {MOST_TOKENS:,} are read")
    refuse_unknown("text", tokens, vocabulary.token_ids.get(UNKNOWN))
    return tokens


def continue_text(
    model: LanguageModel, vocabulary: Vocabulary, reading: TextReading, length: int, how: Sampling
) -> str:
    """What the model writes after the text, which need not be the model that has read it."""
    if not 1 <= length <= MOST_GENERATED:
        raise ValueError(f"length: expected 1 to {MOST_GENERATED} tokens, got {length}")
    new = islice(generate(model, encode(vocabulary, reading.text), how), length)
    return printable("".join(vocabulary.decode(new)))


def _occupancy(layer: str, trace: LayerTrace) -> Occupancy:
    ranks = tuple((spectrum.write, spectrum.effective_rank.mean().item()) for spectrum in trace.spectra)
    sizes = trace["weights"][0].mean(dim=0).tolist()
    return Occupancy(layer, ranks, tuple(enumerate(sizes, start=1)))


def _erasures(observation: Observation, layer: str, count: int) -> Iterator[tuple[int, Erasure]]:
    """For every token the earlier ones that it erased most of, in any head; nothing for a rule that is not linear."""
    found = influences(observation)
    if found is None:
        return
    each = found.erased.shape[-1] // count
    shares, heads = found.erased[0].max(dim=0)
    best, earlier = shares.topk(min(ERASURES, shares.shape[-1]), dim=-1)
    chosen = heads.gather(1, earlier)
    for write, row in enumerate(zip(best.tolist(), earlier.tolist(), chosen.tolist(), strict=True)):
        for share, other, head in zip(*row, strict=True):
            if share > 0 and other // each != write // each:
                yield write // each, Erasure(share, other // each, layer, head)
