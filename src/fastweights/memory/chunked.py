"""The recurrence in chunks: matrix products and one triangular solve per chunk, with a backward pass of its own.

Inside a chunk of C steps the corrections U solve a unit lower triangular system (the WY form), so the sequential depth
falls from t to t / C. The backward keeps U and the weights at the chunk starts, never the weights of every step. The
formulas and their derivation are in docs/math.md#chunks; here S = Wᵀ, rows are steps, and a leading n = b·h.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from fastweights.memory.backend import Call
from fastweights.shapes import Keys, PerKey, PerStep, Queries, Values, Weights

CHUNK = 64
"""Steps per chunk; the last one is filled up with steps that do nothing."""


def unavailable() -> str | None:
    """Why this backend cannot run here at all; None if it can."""
    return None


def cannot_serve(call: Call) -> str | None:
    """Why this backend cannot serve the call; None if it can."""
    if call.decay == "channel":
        return "it takes one decay per head and step, got one for each component of the keys"
    return "it looks up with the keys, got lookups of their own" if call.lookups else None


def suits(call: Call) -> bool:
    """False for a single step, for which most of a chunk would be filling."""
    return call.steps > 1


def scan(
    queries: Queries,
    keys: Keys,
    values: Values,
    erase: PerStep,
    write: PerStep,
    weights: Weights,
    decay: PerStep | PerKey | None = None,
    lookups: Keys | None = None,
    chunk: int = CHUNK,
) -> tuple[Values, Weights]:
    """W_t = g_t W_{t-1} (I - a_t k_t k_tᵀ) + b_t v_t k_tᵀ,   y_t = W_t q_t."""
    batch, heads, steps, _ = keys.shape
    if steps == 0:
        return values.clone(), weights.clone()
    fill = -steps % chunk

    def fold(x: Tensor, filling: float = 0.0) -> Tensor:
        """b h t … → n c C …, filled up to whole chunks."""
        if fill:  # padding by nothing would copy
            x = torch.nn.functional.pad(x, (0, 0) * (x.dim() - 3) + (0, fill), value=filling)
        return x.reshape(batch * heads, -1, chunk, *x.shape[3:])

    reads, state = _Chunks.apply(
        fold(queries),
        fold(keys),
        fold(values),
        fold(erase),
        fold(write),
        weights.flatten(0, 1).mT,
        None if decay is None else fold(decay, 1.0),
    )
    return reads.unflatten(0, (batch, heads)).flatten(2, 3)[:, :, :steps], state.mT.unflatten(0, (batch, heads))


class _Decay(NamedTuple):
    """Products of the decays inside one chunk; None where there is no decay."""

    between: Tensor | None = None  # D_ij = g_{j+1} … g_i in the lower triangle, zero above
    from_start: Tensor | None = None  # Γ_i = g_1 … g_i, as a column
    to_end: Tensor | None = None  # E_i = g_{i+1} … g_C, as a column
    whole: Tensor | None = None  # g_1 … g_C

    @classmethod
    def of(cls, decay: Tensor | None, c: int) -> "_Decay":
        if decay is None:
            return cls()
        # In float64, so that sums of logarithms lose nothing.
        logs = decay[:, c].double().log().cumsum(dim=-1)
        between = (logs[:, :, None] - logs[:, None, :]).tril().exp().tril()
        from_start, to_end = logs.exp()[..., None], (logs[:, -1:] - logs).exp()[..., None]
        return cls(*(x.to(decay.dtype) for x in (between, from_start, to_end, from_start[:, -1:])))


def _times(factor: Tensor | None, x: Tensor) -> Tensor:
    return x if factor is None else factor * x


def _d_decay(between: Tensor, started: Tensor, ended: Tensor, kept: Tensor) -> Tensor:
    """g_t ∂L/∂g_t: the sum of all that passes step t, from before it or the chunk's start, to it or the chunk's end.

    Every term has the factor g_t and nothing is subtracted, so that dividing by a small g_t is safe.
    """
    crossing = between.cumsum(-1).flip(-2).cumsum(-2).flip(-2).diagonal(-1, -2, -1)
    from_before = torch.nn.functional.pad(crossing + ended.cumsum(-1)[:, :-1], (1, 0))
    return from_before + started.flip(-1).cumsum(-1).flip(-1) + kept[:, None]


class _Chunks(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        queries: Tensor,
        keys: Tensor,
        values: Tensor,
        erase: Tensor,
        write: Tensor,
        state: Tensor,
        decay: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        reads, corrections = torch.empty_like(values), torch.empty_like(values)
        starts = state.new_empty(state.shape[0], keys.shape[1], *state.shape[1:])
        for c in range(keys.shape[1]):
            q, k, a, b = queries[:, c], keys[:, c], erase[:, c, :, None], write[:, c, :, None]
            product = _Decay.of(decay, c)
            system = _times(product.between, a * (k @ k.mT))
            attention = _times(product.between, (q @ k.mT).tril())
            target = b * values[:, c] - a * _times(product.from_start, k @ state)
            # The solver reads only the strict lower triangle of the system and takes its diagonal as ones.
            u = torch.linalg.solve_triangular(system, target, upper=False, unitriangular=True)
            starts[:, c], corrections[:, c] = state, u
            reads[:, c] = _times(product.from_start, q @ state) + attention @ u
            state = _times(product.whole, state) + k.mT @ _times(product.to_end, u)
        ctx.save_for_backward(queries, keys, values, erase, write, decay, corrections, starts)
        return reads, state

    @staticmethod
    @once_differentiable  # type: ignore[no-untyped-call,untyped-decorator,unused-ignore]
    def backward(ctx: Any, d_reads: Tensor, d_state: Tensor) -> tuple[Tensor | None, ...]:
        queries, keys, values, erase, write, decay, corrections, starts = ctx.saved_tensors
        d_queries, d_keys, d_values, d_erase, d_write = (
            torch.empty_like(x) for x in (queries, keys, values, erase, write)
        )
        d_decay = None if decay is None else torch.empty_like(decay)
        for c in reversed(range(keys.shape[1])):
            q, k, v, u, start = queries[:, c], keys[:, c], values[:, c], corrections[:, c], starts[:, c]
            a, b, dy = erase[:, c, :, None], write[:, c, :, None], d_reads[:, c]
            product = _Decay.of(decay, c)
            overlaps = _times(product.between, k @ k.mT)
            attention = _times(product.between, (q @ k.mT).tril())
            dy_start, u_end = _times(product.from_start, dy), _times(product.to_end, u)
            du = attention.mT @ dy + _times(product.to_end, k @ d_state)
            dr = torch.linalg.solve_triangular((a * overlaps).mT, du, upper=True, unitriangular=True)
            dr_start = _times(product.from_start, dr)
            d_system, d_attention = -(dr @ u.mT).tril(-1), (dy @ u.mT).tril()
            retrieved = (k @ start) * dr_start
            d_values[:, c] = b * dr
            d_write[:, c] = (v * dr).sum(-1)
            d_erase[:, c] = (d_system * overlaps).sum(-1) - retrieved.sum(-1)
            if d_decay is not None:
                between = d_attention * attention + a * d_system * overlaps
                started = ((q @ start) * dy_start).sum(-1) - (a * retrieved).sum(-1)
                ended = ((k @ d_state) * u_end).sum(-1)
                kept = _times(product.whole, d_state * start).sum((-2, -1))
                d_decay[:, c] = _d_decay(between, started, ended, kept) / decay[:, c]
            d_overlaps, d_attention = (
                a * _times(product.between, d_system),
                _times(product.between, d_attention),
            )
            d_queries[:, c] = dy_start @ start.mT + d_attention @ k
            d_keys[:, c] = (
                d_attention.mT @ q + (d_overlaps + d_overlaps.mT) @ k - (a * dr_start) @ start.mT + u_end @ d_state.mT
            )
            d_state = _times(product.whole, d_state) + q.mT @ dy_start - k.mT @ (a * dr_start)
        return d_queries, d_keys, d_values, d_erase, d_write, d_state, d_decay
