"""The synthetic retrieval task: pairs of a key and a value, then the question what a key stands for (Sec. 6.1)."""

from dataclasses import dataclass
from typing import Literal, NamedTuple, get_args

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

Setting = Literal["capacity", "overwriting"]

INITIALISATION, TRAINING, EVALUATION, FEATURES, EVALUATION_FEATURES = range(5)
"""Purposes of random numbers: each draws from its own stream."""


class RetrievalBatch(NamedTuple):
    """Sequences of pairs, the keys that are looked up at their end, and the values last paired with those.

    Sequences may be asked for different numbers of keys; `query_mask` is false where there is no question.
    """

    keys: Int[Tensor, "b t"]
    values: Int[Tensor, "b t"]
    queries: Int[Tensor, "b q"]
    targets: Int[Tensor, "b q"]
    query_mask: Bool[Tensor, "b q"]


@dataclass(frozen=True)
class RetrievalProblem:
    """S keys, S values. "capacity": all keys once, L = S (setting 1). "overwriting": any keys, L = 2S (setting 2).

    Without replacement the memory must hold S pairs at once; with it, a key that comes again has a new value, which
    is the one to retrieve. Everything is a pure function of (seed, step), so there is no generator to keep.
    """

    setting: Setting
    num_keys: int

    def __post_init__(self) -> None:
        if self.setting not in get_args(Setting):
            raise ValueError(f"setting: must be one of {', '.join(get_args(Setting))}, got {self.setting!r}")
        if isinstance(self.num_keys, bool) or not isinstance(self.num_keys, int) or self.num_keys < 2:
            raise ValueError(f"num_keys: must be an integer of at least 2, got {self.num_keys!r}")

    @property
    def length(self) -> int:
        """L, the number of pairs in a training sequence."""
        return self.num_keys if self.setting == "capacity" else 2 * self.num_keys

    def batch(self, size: int, *, seed: int, step: int) -> RetrievalBatch:
        """One question per sequence, about the key of a random position: frequent keys are asked for more often."""
        random = random_numbers(seed, TRAINING, step)
        keys, values = self._pairs(size, self.length, random)
        asked_position = random.integers(self.length, size=(size, 1))
        queries = np.take_along_axis(keys, asked_position, axis=1)
        last_position = self.length - 1 - (keys == queries)[:, ::-1].argmax(axis=1, keepdims=True)
        targets = np.take_along_axis(values, last_position, axis=1)
        asked = np.ones_like(queries, dtype=bool)
        return RetrievalBatch(*(torch.from_numpy(x) for x in (keys, values, queries, targets, asked)))

    def evaluation(
        self, sequences: int, length: int, max_queries: int | None = None, *, seed: int, step: int
    ) -> RetrievalBatch:
        """Fresh sequences, each asked for all the keys it has, in the order of their index, or the first of them."""
        random = random_numbers(seed, EVALUATION, step)
        keys, values = (torch.from_numpy(x) for x in self._pairs(sequences, length, random))
        positions = torch.arange(length).expand_as(keys)
        never = torch.full((sequences, self.num_keys), -1)
        last_position = never.scatter_reduce(1, keys, positions, reduce="amax")
        present = last_position >= 0
        # Keys that occur come first, in their order; what follows is not asked for.
        queries = present.to(torch.int8).argsort(dim=1, descending=True, stable=True)
        queries = queries[:, : int(present.sum(dim=1).amax())][:, :max_queries]
        asked = present.gather(1, queries)
        targets = values.gather(1, last_position.gather(1, queries).clamp(min=0))
        return RetrievalBatch(keys, values, queries, targets, asked)

    def _pairs(
        self, sequences: int, length: int, random: np.random.Generator
    ) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        if self.setting == "overwriting":
            shape = (2, sequences, length)
            keys, values = random.integers(self.num_keys, size=shape)
            return keys, values
        if length != self.num_keys:
            raise ValueError(f"length: without replacement it must be {self.num_keys}, got {length}")
        ordered = np.broadcast_to(np.arange(self.num_keys), (2, sequences, self.num_keys))
        keys, values = random.permuted(ordered, axis=-1)
        return keys, values


def random_numbers(seed: int, purpose: int, *step: int) -> np.random.Generator:
    """A generator that depends on its arguments alone, with unrelated numbers for any other arguments."""
    return np.random.default_rng((seed, purpose, *step))


def torch_generator(seed: int, purpose: int, *step: int) -> torch.Generator:
    """The same for torch's own random functions."""
    return torch.Generator().manual_seed(int(random_numbers(seed, purpose, *step).integers(2**32)))
