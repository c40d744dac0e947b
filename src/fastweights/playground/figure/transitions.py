"""What a write does to all that the keys retrieve, recorded from the library.

The reads R = W K of all keys at once (values × keys) say everything about a memory that is only read with these keys.
Of a rule that is linear in W, a write of the value v under the key i makes them

    R ← R A_i + v b_iᵀ

A_i is what the library leaves of the reads I after a write of nothing, b_i what it makes of the reads 0 after a write
of 1. So a page that has A_i and b_i of every key needs no formula of the rule.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from fastweights.memory import FastWeightState, WriteInputs, run_rule
from fastweights.memory.whole_sequence import read_memory
from fastweights.playground.choices import MemoryChoice
from fastweights.playground.keys import KEY_DIM, colour_keys
from fastweights.playground.outcome import gates_of
from fastweights.shapes import Keys


@dataclass(frozen=True)
class Transitions:
    """A (keys × keys × keys) and b (keys × keys) of one memory, both by the key that is written."""

    kept: Tensor
    added: Tensor

    def write(self, reads: Tensor, key: int, value: Tensor) -> Tensor:
        """R A_i + v b_iᵀ."""
        return reads @ self.kept[key] + torch.outer(value, self.added[key])


def recorded(choice: MemoryChoice, similarity: float) -> Transitions:
    """Write once under every key, into a memory whose reads are I and into an empty one, at full strength."""
    if choice.attention_normalisation is not None:
        raise ValueError(f"{choice.name}: reads that are divided by z·q are not linear in W")
    keys = choice.mapping(KEY_DIM)(colour_keys(similarity))[0]
    count = keys.shape[2]
    # W K = I: each key retrieves a value of its own.
    apart = torch.linalg.pinv(keys[0, 0].T)[None, None]
    nothing = torch.zeros(1, 1, 1, count, dtype=keys.dtype)
    kept = [_reads(choice, keys, key, nothing, apart) for key in range(count)]
    one, empty = torch.ones(1, 1, 1, 1, dtype=keys.dtype), torch.zeros(1, 1, 1, keys.shape[-1], dtype=keys.dtype)
    added = [_reads(choice, keys, key, one, empty)[0] for key in range(count)]
    return Transitions(torch.stack(kept), torch.stack(added))


def _reads(choice: MemoryChoice, keys: Keys, key: int, value: Tensor, weights: Tensor) -> Tensor:
    """What all keys retrieve after one write, values × keys."""
    state = FastWeightState(weights, None, torch.zeros(1, dtype=torch.int64))
    ones, rule = torch.ones(1, 1, 1, dtype=keys.dtype), choice.update_rule
    gates = gates_of(rule, ones, ones, keys.shape[-1], value.shape[-1])
    writes = WriteInputs(keys[:, :, key : key + 1], value, gates)
    after = run_rule(rule, writes, writes.keys, state)[1]
    return read_memory(rule, after, keys, None)[0, 0].T
