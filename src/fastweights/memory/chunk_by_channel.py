"""One chunk of steps whose decay is a vector, one number per component of the keys.

The decay between two steps then stands inside their dot product, D_ij = g_{j+1} ∘ … ∘ g_i, so that the matrix of all
q_i·(D_ij ∘ k_j) is no product of two matrices. D is formed for a chunk, by products alone: quotients of products from
the chunk's start would overflow, and a decay of zero would have none. Derivation in docs/math.md#chunks-by-channel.
"""

import torch
from torch import Tensor

from fastweights.memory.chunk_by_head import Chunk


def _between(decay: Tensor) -> Tensor:
    """D_ij as `n i j k`, zero for j > i."""
    ones = decay.new_ones(decay.shape[1], decay.shape[1])
    factors = torch.where((ones.tril(-1) > 0)[..., None], decay[:, :, None], 1.0)
    return factors.cumprod(dim=1) * ones.tril()[..., None]


def _weighted(coefficients: Tensor, rows: Tensor) -> Tensor:
    """Σ_j c_ij x_ij."""
    return (coefficients[:, :, None] @ rows).squeeze(2)


def forward(chunk: Chunk, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Reads, corrections U and the final state."""
    assert chunk.decay is not None
    q, k, v, a, b = *chunk[:3], chunk.erase[..., None], chunk.write[..., None]
    e = k if chunk.lookups is None else chunk.lookups
    from_start, aged = chunk.decay.cumprod(dim=1), _between(chunk.decay) * k[:, None]
    attention, overlaps = (aged @ q[..., None]).squeeze(-1), (aged @ e[..., None]).squeeze(-1)
    target = b * v - a * ((from_start * e) @ state)
    # Only the strict lower triangle of the system is read; its diagonal counts as ones.
    u = torch.linalg.solve_triangular(a * overlaps, target, upper=False, unitriangular=True)
    reads = (from_start * q) @ state + attention @ u
    return reads, u, from_start[:, -1, :, None] * state + aged[:, -1].mT @ u


def backward(chunk: Chunk, u: Tensor, start: Tensor, dy: Tensor, d_state: Tensor) -> tuple[Chunk, Tensor]:
    """Gradients of the chunk's inputs and of the state it started from."""
    assert chunk.decay is not None
    q, k, v, a, b = *chunk[:3], chunk.erase[..., None], chunk.write[..., None]
    e = k if chunk.lookups is None else chunk.lookups
    from_start, between = chunk.decay.cumprod(dim=1), _between(chunk.decay)
    aged, to_end = between * k[:, None], between[:, -1]
    q_start, e_start = from_start * q, from_start * e
    attention, overlaps = (aged @ q[..., None]).squeeze(-1), (aged @ e[..., None]).squeeze(-1)
    du = attention.mT @ dy + (to_end * k) @ d_state
    dr = torch.linalg.solve_triangular((a * overlaps).mT, du, upper=True, unitriangular=True)
    d_system, d_attention = -(dr @ u.mT).tril(-1), (dy @ u.mT).tril()
    d_overlaps = a * d_system
    # Through the state at the start, and through the state at the end.
    read, retrieved, written = dy @ start.mT, -(a * dr) @ start.mT, u @ d_state.mT
    pulls = d_attention[..., None] * q[:, :, None] + d_overlaps[..., None] * e[:, :, None]  # on D_ij ∘ k_j
    d_queries = from_start * read + _weighted(d_attention, aged)
    d_lookups = from_start * retrieved + _weighted(d_overlaps, aged)
    d_keys = to_end * written + (between * pulls).sum(dim=1)
    d_decay = _d_decay(chunk.decay, between, aged, pulls, written, q * read + e * retrieved, (d_state * start).sum(-1))
    d_erase = (d_system * overlaps).sum(-1) - ((e_start @ start) * dr).sum(-1)
    d_state = from_start[:, -1, :, None] * d_state + q_start.mT @ dy - e_start.mT @ (a * dr)
    if chunk.lookups is None:
        d_keys, d_lookups = d_keys + d_lookups, None
    return Chunk(d_queries, d_keys, b * dr, d_erase, (v * dr).sum(-1), d_decay, d_lookups), d_state


def _d_decay(
    decay: Tensor, between: Tensor, aged: Tensor, pulls: Tensor, written: Tensor, started: Tensor, kept: Tensor
) -> Tensor:
    """∂L/∂g_t: what was stored before step t, aged up to it, times the pull on it from step t on.

    The state at the chunk's start is one more key, aged by Γ; the state at its end is one more step that pulls.
    """
    ones = torch.ones_like(decay[:, :1])
    stored = torch.cat([decay.cumprod(dim=1)[:, :, None], aged], dim=2)[:, :-1]
    first = torch.cat([ones[:, :, None], torch.zeros_like(aged[:, :1])], dim=2)
    stored = torch.cat([first, stored], dim=1)  # of step t - 1
    last = torch.cat([kept[:, None], written], dim=1)[:, None]
    pulls = torch.cat([torch.cat([started[:, :, None], pulls], dim=2), last], dim=1)
    since = torch.cat([between, between[:, -1:]], dim=1)  # n i t k
    later = since.permute(0, 3, 2, 1) @ pulls.permute(0, 3, 1, 2)  # n k t j
    return (stored.permute(0, 3, 1, 2) * later).sum(-1).mT
