"""Translating a sentence: the hypotheses of the search, and what the memory of the source gives to each target word.

A read of a memory is a sum over what was written into it (`memory/influence.py`); its weights say which source words
a target word takes from.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import pad

from fastweights.data.translation_tokeniser import END, START, JointBytePairs
from fastweights.evaluation.prompt import printable
from fastweights.evaluation.translate import Search, Translation, hypotheses
from fastweights.layers.attention.cross import FastWeightCrossAttention
from fastweights.memory import Observation, observe
from fastweights.memory.influence import influences
from fastweights.models.translator import Translator
from fastweights.reporting import layer_label

MOST_CHARACTERS, MOST_BEAMS = 1000, 8


@dataclass(frozen=True)
class SourceReads:
    """How much of what every source token wrote the read of every target token takes, in one layer."""

    layer: str
    weights: Tensor
    """Heads × target × source."""


@dataclass(frozen=True)
class Translated:
    """A sentence with all that the search found, and what the best translation took from where."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    found: tuple[Translation, ...]
    reads: tuple[SourceReads, ...]
    """Of layers whose attention to the source is a linear fast-weight memory."""


def translate_sentence(model: Translator, tokeniser: JointBytePairs, sentence: str, beams: int) -> Translated:
    """The best translations of one sentence; a ValueError says why there is none."""
    if len(sentence) > MOST_CHARACTERS:
        raise ValueError(f"sentence: {len(sentence):,} characters; at most {MOST_CHARACTERS:,} are translated")
    if not 1 <= beams <= MOST_BEAMS:
        raise ValueError(f"beams: expected 1 to {MOST_BEAMS}, got {beams}")
    line = " ".join(sentence.split())
    found = hypotheses(model, tokeniser, line, Search(beams=beams))
    source, target = [*tokeniser.encode([line])[0], END], found[0][0]
    return Translated(
        pieces(tokeniser, source),
        pieces(tokeniser, target),
        tuple(translation for _, translation in found),
        tuple(source_reads(model, source, target)),
    )


def pieces(tokeniser: JointBytePairs, tokens: list[int]) -> tuple[str, ...]:
    """What every token stands for."""
    return tuple("</s>" if token == END else printable(tokeniser.decode([[token]])[0]) or "␣" for token in tokens)


@torch.inference_mode()
def source_reads(model: Translator, source: list[int], target: list[int]) -> list[SourceReads]:
    """The weights of every layer's reads of the source, with the target given."""
    layers = {name: x for name, x in model.named_modules() if isinstance(x, FastWeightCrossAttention)}
    if not layers:
        return []
    shown, asked = dict[str, Observation](), dict[str, Tensor]()
    encoded = model.encode(torch.tensor([source]))
    with observe(model, lambda name: lambda observation: shown.update({name: observation})):
        memories = model.write(encoded)
    hooks = [
        layer.register_forward_pre_hook(lambda _, given, name=name: asked.update({name: given[0]}))
        for name, layer in layers.items()
    ]
    try:
        model.decode(torch.tensor([[START, *target[:-1]]]), memories)
    finally:
        for hook in hooks:
            hook.remove()
    found = []
    for name, layer in layers.items():
        weights = read_weights(shown[name], layer.queries(asked[name]))
        if weights is not None:
            found.append(SourceReads(layer_label(name), weights))
    return found


def read_weights(written: Observation, queries: Tensor) -> Tensor | None:
    """How much each query takes of what each step wrote, heads × queries × steps; None if the rule is not linear.

    The queries read after all writes: at steps that follow them, whose keys and values are zero and which keep all.
    """
    each, writes = written.rule.writes_per_step, written.writes
    steps, more = writes.keys.shape[2] // each, queries.shape[2]
    following = (0, 0, 0, each * more)
    longer = writes._replace(
        keys=pad(writes.keys, following),
        values=pad(writes.values, following),
        gates={name: _with_ones(gate, more * gate.shape[2] // steps) for name, gate in writes.gates.items()},
    )
    reading = torch.cat([torch.zeros_like(queries[:, :, :1]).expand(-1, -1, steps, -1), queries], dim=2)
    found = influences(written._replace(writes=longer, queries=reading))
    if found is None:
        return None
    last = found.read[0][:, each * steps + each - 1 :: each, : each * steps]
    return last.unflatten(-1, (steps, each)).sum(dim=-1)


def _with_ones(gate: Tensor, count: int) -> Tensor:
    return torch.cat([gate, torch.ones_like(gate[:, :, :1]).expand(-1, -1, count, *gate.shape[3:])], dim=2)
