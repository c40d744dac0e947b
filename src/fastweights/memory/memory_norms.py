"""|W_t| after every step, from what each step changed: W itself is never built for all of them."""

import torch
from torch import Tensor

from fastweights.memory.scan import fast_weight_scan

CHUNK = 64
"""Steps whose weights are built at a time where the decay has one number per component of the keys."""


def memory_norms(weights: Tensor, keys: Tensor, change: Tensor, found: Tensor, decay: Tensor | None) -> Tensor:
    """|W_t| for W_t = W_{t-1} diag(g_t) + c_t k_tᵀ, with `change` c, `decay` g, and `found` W_{t-1} diag(g_t) k_t.

    |W_t|² = g_t² |W_{t-1}|² + 2 c_t·found_t + |c_t|² |k_t|²: a memory of one number, summed in float64.
    """
    if decay is not None and decay.dim() == 4:
        return _norms_by_columns(weights, keys, change, decay)
    added = torch.linalg.vector_norm(change, dim=-1).double() * _lengths(keys)
    growth = 2 * (change * found).sum(dim=-1, dtype=torch.float64) + added.square()
    start = weights.double().square().sum(dim=(-2, -1))
    if decay is None:
        squares = start[..., None] + growth.cumsum(dim=-1)
    else:
        ones = torch.ones_like(growth)
        squares = fast_weight_scan(
            ones[..., None],
            ones[..., None],
            growth[..., None],
            torch.zeros_like(ones),
            ones,
            start[..., None, None],
            decay.double().square(),
        )[0][..., 0]
    # A memory that was reset leaves rounding errors, which may be negative.
    return squares.clamp(min=0).sqrt().to(weights.dtype)


def _norms_by_columns(weights: Tensor, keys: Tensor, change: Tensor, decay: Tensor) -> Tensor:
    """The same where columns of W decay on their own: each is a memory of keys with one component, read with 1."""
    norms = [weights.new_zeros(*keys.shape[:2], 0)]
    columns = weights.mT.flatten(1, 2)[..., None]
    for start in range(0, keys.shape[2], CHUNK):
        part = slice(start, start + CHUNK)
        key, g = (x[:, :, part].transpose(2, 3).flatten(1, 2).to(weights.dtype) for x in (keys, decay))
        values = change[:, :, part].to(weights.dtype).repeat_interleave(keys.shape[-1], dim=1)
        ones = torch.ones_like(key)
        reads, columns = fast_weight_scan(
            ones[..., None], key[..., None], values, torch.zeros_like(ones), ones, columns, g
        )
        squares = reads.square().sum(dim=-1)
        norms.append(squares.unflatten(1, keys.shape[1:2] + keys.shape[-1:]).sum(dim=2).sqrt())
    return torch.cat(norms, dim=2)


def _lengths(keys: Tensor) -> Tensor:
    """|k| in float64: unit keys are all rounded the same way, which would add up. One sequence at a time is copied."""
    rows = [torch.linalg.vector_norm(row, dim=-1, dtype=torch.float64) for row in keys]
    return torch.stack(rows) if rows else keys[..., 0].double()
