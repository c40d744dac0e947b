"""How many associations a memory holds: S random keys, each with a picture and with its number as a one-hot vector.

The loss ½|v - v̂|² of one-hot values is that of the paper's Sec. 6.1, for which the rank bound is known: a matrix with
d_dot columns has at most rank d_dot.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor

from fastweights.experiments.demo.memory import relative_error
from fastweights.experiments.retrieval.bounds import rank_bound
from fastweights.experiments.retrieval.model import retrieval_loss
from fastweights.memory import FastWeightState, WriteInputs, run_rule
from fastweights.playground.choices import PLAYED_MAPS, MemoryChoice
from fastweights.playground.outcome import gates_of
from fastweights.playground.pictures import NAMED, named

KEY_DIM = 8
"""Components of a key; d_dot is what the map makes of them."""
MOST = 96
"""Associations: twice the features of the largest map."""
POINTS = 24
SHOWN = 24
"""Pictures that are shown at most."""


@dataclass(frozen=True)
class Held:
    """What a memory with S associations retrieves."""

    loss: float
    """½|v - v̂|², mean over all keys, one-hot values."""
    pictures: Tensor
    """What the keys retrieve where the values are pictures, the first so many."""
    errors: tuple[float, ...]
    """|retrieved - stored| / |stored| of these."""


def feature_dim(choice: MemoryChoice) -> int:
    """d_dot of the memory."""
    return PLAYED_MAPS[choice.feature_map].feature_dim(KEY_DIM)


def stored_pictures(count: int) -> Tensor:
    """The pictures that are written: those with names, over and over."""
    names = list(NAMED)
    return torch.tensor([named(names[n % len(names)]) for n in range(count)], dtype=torch.float64)


@lru_cache(maxsize=512)
def hold(choice: MemoryChoice, count: int, strength: float) -> Held:
    """Write `count` associations one after the other, then read all of them."""
    if type(count) is not int or not 1 <= count <= MOST:
        raise ValueError(f"associations: expected 1 to {MOST}, got {count}")
    if not 0 <= strength <= 1:
        raise ValueError(f"strength: expected a number from 0 to 1, got {strength}")
    values = stored_pictures(count)
    read = _read(choice, torch.eye(count, dtype=torch.float64), strength)
    pictures = _read(choice, values, strength)
    losses = retrieval_loss(read[None], torch.arange(count)[None])
    errors = tuple(relative_error(pictures[n], values[n]) for n in range(min(count, SHOWN)))
    return Held(float(losses.mean()), pictures[:SHOWN], errors)


def _read(choice: MemoryChoice, values: Tensor, strength: float) -> Tensor:
    count, attention, rule = len(values), choice.attention_normalisation, choice.update_rule
    generator = torch.Generator().manual_seed(0)
    vectors = torch.randn(1, 1, MOST, KEY_DIM, generator=generator, dtype=torch.float64)[:, :, :count]
    keys = choice.mapping(KEY_DIM)(vectors)[0]
    state = FastWeightState.zeros(
        1, 1, values.shape[1], keys.shape[-1], normaliser=attention is not None, dtype=torch.float64
    )
    ones = torch.ones(1, 1, count, dtype=torch.float64)
    gates = gates_of(rule, strength * ones, ones, keys.shape[-1], values.shape[1])
    writes = WriteInputs(keys, values[None, None], gates)
    return run_rule(rule, writes, keys, state, attention_normalisation=attention, causal=False)[0][0, 0]


def curve(choice: MemoryChoice, strength: float) -> list[tuple[int, float]]:
    """The loss by the number of associations, up to twice the features."""
    return [(count, hold(choice, count, strength).loss) for count in counts(choice)]


def bound(choice: MemoryChoice) -> list[tuple[int, float]]:
    """The rank bound at the same numbers of associations."""
    return [(count, rank_bound(feature_dim(choice), count)) for count in range(1, most(choice) + 1)]


def most(choice: MemoryChoice) -> int:
    """Associations up to which the page goes: twice the features."""
    return min(2 * feature_dim(choice), MOST)


def counts(choice: MemoryChoice) -> Sequence[int]:
    """About `POINTS` numbers of associations from 1 to the most."""
    last = most(choice)
    return sorted({1, last, *range(1, last + 1, max(last // POINTS, 1))})
