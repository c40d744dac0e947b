"""What is computed: sizes, inputs, and the definition in float64 that every result has to agree with."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import normalize
from torch.utils.checkpoint import checkpoint

from fastweights import fast_weight_scan

Inputs = tuple[Tensor, ...]
"""Queries, keys, values, and write strengths if the problem has any; layout b h t ·."""

SEGMENT = 32
"""Steps whose graph is kept at a time while the oracle is differentiated."""
QUERIES = 512
"""Rows of the attention matrix that are kept at a time."""
ORACLE_BUDGET = 2**27
"""Products that the oracle may form: more sequences of a short problem, at least one of a long one."""
ORACLE_SEQUENCES = 8


@dataclass(frozen=True)
class Case:
    """Sizes of one call: b sequences, h heads, t steps, keys of k and values of v components."""

    batch: int
    heads: int
    steps: int
    key_dim: int
    value_dim: int

    @property
    def name(self) -> str:
        return f"b{self.batch} h{self.heads} t{self.steps} k{self.key_dim} v{self.value_dim}"

    @property
    def tokens(self) -> int:
        return self.batch * self.steps

    @property
    def forward_flop(self) -> int:
        """6·k·v per token and head: retrieve, write and read are k·v multiplications and additions each."""
        return 6 * self.tokens * self.heads * self.key_dim * self.value_dim

    @property
    def backward_flop(self) -> int:
        """14·k·v per token and head (docs/benchmarks.md#what-is-counted)."""
        return 14 * self.tokens * self.heads * self.key_dim * self.value_dim


@dataclass(frozen=True)
class Problem:
    """A function from inputs to reads: how inputs are drawn, and the slow form that defines it."""

    draw: Callable[[Case], Inputs]
    define: Callable[..., Tensor]
    cost: Callable[[Case], int]
    """Products per sequence that the definition takes."""

    def sample(self, x: Tensor, case: Case) -> Tensor:
        """Some of the b·h sequences as 1 n t ·, the first and the last among them where there are several."""
        sequences = case.batch * case.heads
        count = max(1, min(ORACLE_SEQUENCES, ORACLE_BUDGET // self.cost(case), sequences))
        rows = torch.linspace(sequences - 1, 0, count).round().long()
        return x.flatten(0, 1)[rows][None]


def draw_memory(case: Case) -> Inputs:
    """Keys and queries of length 1, and strengths between 0 and 1: what a layer hands to the operator."""
    generator = torch.Generator().manual_seed(0)
    leading = (case.batch, case.heads, case.steps)
    queries, keys = (normalize(torch.randn(*leading, case.key_dim, generator=generator), dim=-1) for _ in range(2))
    values = torch.randn(*leading, case.value_dim, generator=generator)
    return queries, keys, values, torch.rand(*leading, generator=generator)


def define_memory(queries: Tensor, keys: Tensor, values: Tensor, strengths: Tensor) -> Tensor:
    """W_t = W_{t-1} (I - β_t k_t k_tᵀ) + β_t v_t k_tᵀ,   y_t = W_t q_t, step by step."""
    weights = values.new_zeros(*values.shape[:2], values.shape[3], keys.shape[3])
    reads = []
    for parts in zip(*(x.split(SEGMENT, dim=2) for x in (queries, keys, values, strengths)), strict=True):
        read, weights = _remember_little(_segment, *parts, weights)
        reads.append(read)
    return torch.cat(reads, dim=2)


def _segment(q: Tensor, k: Tensor, v: Tensor, strength: Tensor, weights: Tensor) -> tuple[Tensor, Tensor]:
    return fast_weight_scan(q, k, v, strength, strength, weights, backend="recurrent")


def _remember_little(function: Callable[..., Any], *arguments: Any) -> Any:
    """The function's result; if gradients are wanted, its graph is made again when they are computed."""
    return checkpoint(function, *arguments, use_reentrant=True) if torch.is_grad_enabled() else function(*arguments)


def draw_attention(case: Case) -> Inputs:
    """Queries and keys as wide as the values: attention before a feature map widened anything."""
    generator = torch.Generator().manual_seed(0)
    shape = (case.batch, case.heads, case.steps, case.value_dim)
    return tuple(torch.randn(*shape, generator=generator) for _ in range(3))


def define_attention(queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
    """y_i = V_i softmax(K_iᵀ q_i / √d), some queries at a time."""
    reads = []
    for start in range(0, queries.shape[2], QUERIES):
        reads.append(_remember_little(_attend, queries[:, :, start : start + QUERIES], keys, values, start))
    return torch.cat(reads, dim=2)


def _attend(queries: Tensor, keys: Tensor, values: Tensor, start: int) -> Tensor:
    end = start + queries.shape[2]
    scores = queries @ keys[:, :, :end].mT / math.sqrt(queries.shape[3])
    future = torch.ones(queries.shape[2], end, dtype=torch.bool).triu(start + 1)
    return scores.masked_fill(future, -math.inf).softmax(dim=-1) @ values[:, :, :end]


MEMORY = Problem(draw_memory, define_memory, lambda case: case.steps * case.key_dim * case.value_dim)
ATTENTION = Problem(draw_attention, define_attention, lambda case: case.steps**2 * case.value_dim)


def upstream(case: Case) -> Tensor:
    """The gradient that comes from above, b h t v."""
    generator = torch.Generator().manual_seed(1)
    return torch.randn(case.batch, case.heads, case.steps, case.value_dim, generator=generator)
