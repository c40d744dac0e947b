"""One chunk of steps whose decay is one number per head, or none: matrix products and one triangular solve.

Notation and derivation are in docs/math.md#chunks; here S = Wᵀ, rows are steps, and a leading n = b·h.
"""

from typing import NamedTuple

import torch
from torch import Tensor


class Chunk(NamedTuple):
    """The inputs of C steps: `n C ·`, and `n C` for erase and write. Absent lookups are the keys."""

    queries: Tensor
    keys: Tensor
    values: Tensor
    erase: Tensor
    write: Tensor
    decay: Tensor | None
    lookups: Tensor | None


class _Decay(NamedTuple):
    """Products of the decays inside one chunk; None where there is no decay."""

    between: Tensor | None = None  # D_ij = g_{j+1} … g_i in the lower triangle, zero above
    from_start: Tensor | None = None  # Γ_i = g_1 … g_i, as a column
    to_end: Tensor | None = None  # T_i = g_{i+1} … g_C, as a column
    whole: Tensor | None = None  # g_1 … g_C

    @classmethod
    def of(cls, decay: Tensor | None) -> "_Decay":
        if decay is None:
            return cls()
        # In float64, so that long products lose nothing; never a quotient, so that a decay of zero is exact.
        exact = decay.double()
        ones = exact.new_ones(decay.shape[-1], decay.shape[-1])
        between = torch.where(ones.tril(-1) > 0, exact[..., None], 1.0).cumprod(dim=-2).tril()
        from_start = exact.cumprod(dim=-1)[..., None]
        parts = (between, from_start, between[:, -1, :, None], from_start[:, -1:])
        return cls(*(x.to(decay.dtype) for x in parts))


def _times(factor: Tensor | None, x: Tensor) -> Tensor:
    return x if factor is None else factor * x


def forward(chunk: Chunk, state: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Reads, corrections U and the final state."""
    q, k, v, a, b = *chunk[:3], chunk.erase[..., None], chunk.write[..., None]
    e = k if chunk.lookups is None else chunk.lookups
    product = _Decay.of(chunk.decay)
    system = _times(product.between, a * (e @ k.mT))
    attention = _times(product.between, (q @ k.mT).tril())
    target = b * v - a * _times(product.from_start, e @ state)
    # Only the strict lower triangle of the system is read; its diagonal counts as ones.
    u = torch.linalg.solve_triangular(system, target, upper=False, unitriangular=True)
    reads = _times(product.from_start, q @ state) + attention @ u
    return reads, u, _times(product.whole, state) + k.mT @ _times(product.to_end, u)


def backward(chunk: Chunk, u: Tensor, start: Tensor, dy: Tensor, d_state: Tensor) -> tuple[Chunk, Tensor]:
    """Gradients of the chunk's inputs and of the state it started from."""
    q, k, v, a, b = *chunk[:3], chunk.erase[..., None], chunk.write[..., None]
    e = k if chunk.lookups is None else chunk.lookups
    product = _Decay.of(chunk.decay)
    raw_overlaps, raw_attention = e @ k.mT, (q @ k.mT).tril()
    overlaps, attention = _times(product.between, raw_overlaps), _times(product.between, raw_attention)
    dy_start, u_end = _times(product.from_start, dy), _times(product.to_end, u)
    du = attention.mT @ dy + _times(product.to_end, k @ d_state)
    dr = torch.linalg.solve_triangular((a * overlaps).mT, du, upper=True, unitriangular=True)
    dr_start = _times(product.from_start, dr)
    d_system, d_attention = -(dr @ u.mT).tril(-1), (dy @ u.mT).tril()
    d_erase = (d_system * overlaps).sum(-1) - ((e @ start) * dr_start).sum(-1)
    d_decay = None
    if chunk.decay is not None:
        d_between = d_attention * raw_attention + a * d_system * raw_overlaps
        started = ((q @ start) * dy).sum(-1) - (a * (e @ start) * dr).sum(-1)
        ended = ((k @ d_state) * u).sum(-1)
        d_decay = _d_decay(product, d_between, started, ended, (d_state * start).sum((-2, -1)))
    d_overlaps, d_attention = a * _times(product.between, d_system), _times(product.between, d_attention)
    d_queries = dy_start @ start.mT + d_attention @ k
    if chunk.lookups is None:
        d_lookups = None
        d_keys = d_attention.mT @ q + (d_overlaps + d_overlaps.mT) @ k - (a * dr_start) @ start.mT + u_end @ d_state.mT
    else:
        d_lookups = d_overlaps @ k - (a * dr_start) @ start.mT
        d_keys = d_attention.mT @ q + d_overlaps.mT @ e + u_end @ d_state.mT
    d_state = _times(product.whole, d_state) + q.mT @ dy_start - e.mT @ (a * dr_start)
    return Chunk(d_queries, d_keys, b * dr, d_erase, (v * dr).sum(-1), d_decay, d_lookups), d_state


def _d_decay(product: _Decay, between: Tensor, started: Tensor, ended: Tensor, kept: Tensor) -> Tensor:
    """∂L/∂g_t: all that passes step t, from before it or the chunk's start, to it or the chunk's end, without g_t.

    The arguments are the gradients of D, Γ, T and Γ_C. What comes from step j to step i has the factor D_{t-1,j} before
    g_t and D_{i,t} after it; the start is one more j, the end one more i.
    """
    assert product.between is not None
    assert product.from_start is not None
    pad = torch.nn.functional.pad
    until = pad(torch.cat([product.from_start, product.between], dim=-1)[:, :-1], (0, 0, 1, 0))  # Γ and D of step t - 1
    until[:, 0, 0] = 1.0
    last = torch.cat([kept[:, None], ended], dim=-1)[:, None]
    pulls = torch.cat([torch.cat([started[..., None], between], dim=-1), last], dim=1)  # to each step and to the end
    since = torch.cat([product.between, product.between[:, -1:]], dim=1)
    return (until * (since.mT @ pulls)).sum(-1)
