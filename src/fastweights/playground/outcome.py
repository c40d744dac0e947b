"""What a memory is after the writes of a session, all of it computed by the library, in float64."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from fastweights.experiments.demo.memory import relative_error
from fastweights.memory import FastWeightState, Observation, WriteInputs, run_rule
from fastweights.memory.key_statistics import KeyStatistics
from fastweights.memory.layer_trace import LayerTrace
from fastweights.memory.whole_sequence import read_memory
from fastweights.playground.choices import MemoryChoice
from fastweights.playground.keys import COLOURS, KEY_DIM, colour_keys
from fastweights.playground.pictures import PIXELS
from fastweights.playground.session import Session, Write
from fastweights.shapes import Keys
from fastweights.update_rules import Decay, UpdateRule


@dataclass(frozen=True)
class MemoryNow:
    """One memory now. λ, B and the singular values are None before the first write, and where they are not defined."""

    weights: Tensor
    """W, values × features."""
    change: Tensor
    """What the last write changed in it."""
    reads: dict[str, Tensor]
    """What every key retrieves."""
    errors: dict[str, float]
    """|retrieved - stored| / |stored| of every key that something was written under."""
    landing: float | None
    balance: float | None
    singular_values: tuple[float, ...]
    effective_rank: float | None
    crosstalk: float
    """The mean cosine of two keys after map and normalisation."""


@lru_cache(maxsize=256)
def outcome(session: Session, choice: MemoryChoice) -> MemoryNow:
    """Write everything up to now; a ValueError says why this memory cannot be."""
    rule, attention = choice.update_rule, choice.attention_normalisation
    mapping = choice.mapping(KEY_DIM)
    keys = mapping(colour_keys(session.similarity))[0]
    empty = FastWeightState.zeros(1, 1, PIXELS, keys.shape[-1], normaliser=attention is not None, dtype=torch.float64)
    before = _after(choice, _inputs(rule, keys, session.past[:-1]), empty)
    after = _after(choice, _inputs(rule, keys, session.past[-1:]), before)
    retrieved = dict(zip(COLOURS, read_memory(rule, after, keys, attention)[0, 0], strict=True))
    stored = {key: torch.tensor(picture, dtype=torch.float64) for key, picture in session.stored().items()}
    errors = {key: relative_error(retrieved[key], value) for key, value in stored.items() if value.any()}
    statistics = KeyStatistics()
    statistics.add(WriteInputs(keys, torch.zeros_like(keys), {}), fresh=True)
    trace = LayerTrace()
    trace(Observation(rule, _inputs(rule, keys, session.past), empty, attention))
    return MemoryNow(
        weights=after.weights[0, 0],
        change=(after.weights - before.weights)[0, 0],
        reads=retrieved,
        errors=errors,
        landing=_last(trace, "landing"),
        # A sum over components of either sign is no amount of weight (docs/looking_inside.md).
        balance=_last(trace, "balance") if bool((keys >= 0).all()) else None,
        singular_values=tuple(trace.final.singular_values[0, 0].tolist()) if session.past else (),
        effective_rank=trace.final.effective_rank.item() if session.past else None,
        crosstalk=statistics.crosstalk.item(),
    )


def _after(choice: MemoryChoice, writes: WriteInputs, state: FastWeightState) -> FastWeightState:
    if not writes.keys.shape[2]:
        return state
    attention = choice.attention_normalisation
    return run_rule(choice.update_rule, writes, writes.keys, state, attention_normalisation=attention)[1]


def _inputs(rule: UpdateRule, keys: Keys, writes: Sequence[Write]) -> WriteInputs:
    """The writes as the library takes them: keys, values and the gates that the rule asks for."""
    places = [list(COLOURS).index(write.key) for write in writes]
    values = torch.tensor([write.picture for write in writes], dtype=keys.dtype).reshape(1, 1, len(writes), PIXELS)
    strengths, decays = (
        torch.tensor([getattr(write, name) for write in writes], dtype=keys.dtype)[None, None]
        for name in ("strength", "decay")
    )
    return WriteInputs(keys[:, :, places], values, gates_of(rule, strengths, decays, keys.shape[-1], PIXELS))


def gates_of(rule: UpdateRule, strengths: Tensor, decays: Tensor, keys: int, values: int) -> Mapping[str, Tensor]:
    """The same decay for every gate that is one, the same strength for all others, in the shape that the gate has."""
    found = {}
    for gate in rule.gates:
        number = decays if isinstance(gate, Decay) else strengths
        components = {"head": None, "key": keys, "value": values}[gate.per]
        found[gate.label] = number if components is None else number[..., None].expand(*number.shape, components)
    return found


def _last(trace: LayerTrace, quantity: str) -> float | None:
    if not trace.steps:
        return None
    value = trace[quantity][0, 0, -1]
    return value.item() if value.isfinite() else None
