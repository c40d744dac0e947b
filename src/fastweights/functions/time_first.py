"""The operator for tensors in the layout `b t h ·`, and for several sequences in one row."""

from collections.abc import Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from fastweights.kernels.transforms import active_transform
from fastweights.memory import boundaries_of, decay_at_boundaries, fast_weight_scan

CumulativeLengths = Sequence[int] | Tensor
"""0, l₁, l₁ + l₂, …: where the sequences of one row begin and end."""

WORTH_BLOCKS = 1 << 14
"""Numbers from which on turning a matrix in blocks is faster."""

EPSILON = 1e-6
"""What flash-linear-attention adds to a squared length."""


def scan(
    queries: Float[Tensor, "b t h k"],
    keys: Float[Tensor, "b t h k"],
    values: Float[Tensor, "b t h v"],
    erase: Float[Tensor, "b t h"],
    write: Float[Tensor, "b t h"],
    decay: Float[Tensor, "b t h"] | Float[Tensor, "b t h k"] | None,
    weights: Float[Tensor, "n h v k"] | None = None,
    cu_seqlens: CumulativeLengths | None = None,
    every_final: bool = False,
) -> tuple[Float[Tensor, "b t h v"], Float[Tensor, "n h v k"]]:
    """All reads and the final weights; one of each per sequence of a packed row, if `every_final` or weights are given.

    The reads are contiguous whatever the layout of the values is.
    """
    sequences = [x.transpose(1, 2) for x in (queries, keys, values, erase, write)]
    g = None if decay is None else decay.transpose(1, 2)
    if cu_seqlens is None:
        reads, final = _operator(sequences, weights, g)
    else:
        first = boundaries_of(cu_seqlens, keys.shape[1])
        if len(keys) != 1:
            raise ValueError(f"cu_seqlens: expected a batch of one row, got {len(keys)}")
        if every_final or weights is not None:
            reads, final = _scan_each(sequences, weights, g, [int(end) for end in cu_seqlens])
        else:
            reads, final = _operator(sequences, None, decay_at_boundaries(first, sequences[1], g))
    return reads.transpose(1, 2).contiguous(), final


def _operator(sequences: list[Tensor], weights: Tensor | None, decay: Tensor | None) -> tuple[Tensor, Tensor]:
    queries, keys, values, erase, write = sequences
    return fast_weight_scan(queries, keys, values, erase, write, weights, decay)


def _scan_each(
    sequences: list[Tensor], weights: Tensor | None, decay: Tensor | None, ends: list[int]
) -> tuple[Tensor, Tensor]:
    """One scan per sequence of the row, each from its own weights."""
    if weights is not None and len(weights) != len(ends) - 1:
        raise ValueError(f"initial_state: expected one for each of {len(ends) - 1} sequences, got {len(weights)}")
    reads, finals = [], []
    for row, (start, end) in enumerate(pairwise(ends)):
        read, final = _operator(
            [x[:, :, start:end] for x in sequences],
            None if weights is None else weights[row : row + 1],
            None if decay is None else decay[:, :, start:end],
        )
        reads.append(read)
        finals.append(final)
    return torch.cat(reads, dim=2), torch.cat(finals)


def in_precision(x: Tensor, dtype: torch.dtype) -> Tensor:
    """The tensor in the dtype that it is computed in, with contiguous rows."""
    x = x.to(dtype)
    if x.stride(-1) == 1:
        return x
    if x.dim() != 4 or x.stride(1) != 1 or x.numel() < WORTH_BLOCKS:
        return x.contiguous()
    # A short convolution leaves columns. PyTorch turns matrices block by block, but other tensors number by number.
    rows = [row.flatten(1).contiguous().view(row.shape) for row in x]
    return rows[0][None] if len(rows) == 1 else torch.stack(rows)


def for_value_heads(x: Float[Tensor, "b t g k"], value_heads: int) -> Float[Tensor, "b t h k"]:
    """Keys or queries that groups of value heads share, one for each of these heads."""
    heads = x.shape[2]
    if heads == value_heads:
        return x
    if heads == 0 or value_heads % heads:
        raise ValueError(f"heads: expected a number of value heads that {heads} key heads divide, got {value_heads}")
    if heads == 1:
        return x.expand(-1, -1, value_heads, -1)
    return x.repeat_interleave(value_heads // heads, dim=2, output_size=value_heads)


def scaled_to_length(x: Tensor, length: float, normalise: bool) -> Tensor:
    """length · x / √(‖x‖² + 1e-6), or length · x."""
    if not normalise:
        return x if length == 1 else x * length
    factor = torch.rsqrt(_squared_length(x) + EPSILON)
    return x * (factor if length == 1 else factor * length)


def _squared_length(x: Tensor) -> Tensor:
    if (x.requires_grad and torch.is_grad_enabled()) or active_transform() != "none" or torch.compiler.is_compiling():
        return x.square().sum(dim=-1, keepdim=True)
    # Without a tensor of squares, whose fresh memory takes longer than the sum; it has no second derivative at 0.
    return torch.linalg.vector_norm(x, dim=-1, keepdim=True).square()
