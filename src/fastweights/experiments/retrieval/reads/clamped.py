"""Reading the memory of Schlag et al. (2021): the delta rule with |W| kept to at most 1 (Sec. 6.1.2).

    W_t = X_t / max(1, |X_t|)   with   X_t = W_{t-1} + u_t ⊗ k_t,   u_t = β_t (v_t - W_{t-1} k_t)

The clamp makes the rule non-linear in W, so it runs step by step. But W itself is never needed, only R_j = W k_j, what
each later key and each query would retrieve, which a write changes by (k_t·k_j) u_t. Nor does the norm need W:
|X_t|² = |W_{t-1}|² + 2 u_t·R_t + |u_t|² |k_t|². The backward pass is in docs/retrieval.md#clamped-memory.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from fastweights.kernels.transforms import once_differentiable


def clamped_reads(
    keys: Float[Tensor, "b t k"],
    queries: Float[Tensor, "b q k"],
    values: Float[Tensor, "b t v"],
    strengths: Float[Tensor, "b t"],
    clamp_first_write: bool,
) -> Float[Tensor, "b q v"]:
    """W_L q for each query. Values get no gradient: they are given, not learned."""
    overlaps = keys @ torch.cat([keys, queries], dim=1).mT
    reads: Tensor = _Steps.apply(overlaps, values, strengths[..., None], clamp_first_write)
    return reads


class _Steps(torch.autograd.Function):
    """Shapes: overlaps b t t+q, values b t v, strengths b t 1, reads b q v."""

    @staticmethod
    def forward(ctx: Any, overlaps: Tensor, values: Tensor, strengths: Tensor, clamp_first_write: bool) -> Tensor:
        steps = values.shape[1]
        retrieved = values.new_zeros(values.shape[0], overlaps.shape[2], values.shape[2])
        lengths = overlaps.diagonal(dim1=1, dim2=2)
        writes, scales = torch.empty_like(values), torch.ones_like(strengths)
        squared_norm = torch.zeros_like(strengths[:, 0])
        for t in range(steps):
            write = (values[:, t] - retrieved[:, t]).mul_(strengths[:, t])
            growth = lengths[:, t, None] * write + 2 * retrieved[:, t]
            squared_norm = squared_norm + torch.linalg.vecdot(write, growth)[:, None]
            later = retrieved[:, t + 1 :]
            later.addcmul_(overlaps[:, t, t + 1 :, None], write[:, None])
            if t > 0 or clamp_first_write:
                scales[:, t] = squared_norm.clamp(min=1).rsqrt_()
                squared_norm = squared_norm.clamp(max=1)
                later.mul_(scales[:, t, None])
            writes[:, t] = write
        ctx.save_for_backward(overlaps, values, strengths, retrieved, writes, scales)
        return retrieved[:, steps:].clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_reads: Tensor) -> tuple[Tensor | None, ...]:
        overlaps, values, strengths, retrieved, writes, scales = ctx.saved_tensors
        steps = values.shape[1]
        d_overlaps = torch.zeros_like(overlaps)
        d_write = torch.empty_like(values)
        d_retrieved = torch.zeros_like(retrieved)
        d_retrieved[:, steps:] = d_reads
        d_norm = torch.zeros_like(strengths[:, 0])
        # ⟨∂R, R⟩, which the derivative of a common factor of R is made of, is carried along instead of computed.
        along = (d_reads * retrieved[:, steps:]).sum(dim=(1, 2))[:, None]
        clamped = scales < 1
        for t in reversed(range(steps)):
            d_later, overlap = d_retrieved[:, t + 1 :], overlaps[:, t, t + 1 :]
            write, length = writes[:, t], overlaps[:, t, t, None]
            d_norm = torch.where(clamped[:, t], along * scales[:, t].square() / -2, d_norm)
            d_later.mul_(scales[:, t, None])
            d_overlaps[:, t, t + 1 :] = torch.bmm(d_later, write[:, :, None])[..., 0]
            through_reads = torch.bmm(overlap[:, None], d_later)[:, 0]
            d_write[:, t] = through_reads + 2 * d_norm * (retrieved[:, t] + length * write)
            d_overlaps[:, t, t] = torch.linalg.vecdot(write, write) * d_norm[:, 0]
            d_retrieved[:, t] = 2 * d_norm * write - strengths[:, t] * d_write[:, t]
            change = torch.linalg.vecdot(d_retrieved[:, t], retrieved[:, t]) - torch.linalg.vecdot(through_reads, write)
            along = along + change[:, None]
        d_strengths = torch.linalg.vecdot(d_write, values - retrieved[:, :steps])[..., None]
        return d_overlaps, None, d_strengths, None
