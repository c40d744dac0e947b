"""Reading a memory that the delta rule has written, without building it (docs/retrieval.md#one-read).

The read after the last write is y = W_L q = Σ_t w_t v_t. The weights w follow from walking back from the query,
    p_L = q,   w_t = β_t k_t·p_t,   p_{t-1} = p_t - w_t k_t,
which costs t·k for each query where W would cost t·k·v. In blocks the walk is one small triangular system after the
other. The gradient walks the same way forwards: it is a delta rule that writes ∂w_t.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import FunctionCtx
from torch.nn.functional import pad

from fastweights.kernels.transforms import once_differentiable

BLOCK = 20
"""Steps that are solved for together; the paper's sequences are multiples of it, so that none has to be filled up."""


def delta_read_weights(
    keys: Float[Tensor, "b t k"], queries: Float[Tensor, "b q k"], strengths: Float[Tensor, "b t"], block: int = BLOCK
) -> Float[Tensor, "b t q"]:
    """w with W_L q = Σ_t w_t v_t, where W_t = W_{t-1} + β_t (v_t - W_{t-1} k_t) ⊗ k_t and W_0 = 0."""
    steps = keys.shape[1]
    if fill := -steps % block:
        # A key of zero writes nothing, so filling up the last block changes nothing.
        keys, strengths = pad(keys, (0, 0, 0, fill)), pad(strengths, (0, fill))
    keys, strengths = keys.unflatten(1, (-1, block)), strengths.unflatten(1, (-1, block))
    weights: Tensor = _WalkBack.apply(keys, queries.mT, strengths[..., None])
    return weights.flatten(1, 2)[:, :steps]


class _WalkBack(torch.autograd.Function):
    """Shapes: keys b n c k, queries b k q, strengths b n c 1, weights b n c q, with n blocks of c steps."""

    @staticmethod
    def forward(ctx: FunctionCtx, keys: Tensor, queries: Tensor, strengths: Tensor) -> Tensor:
        overlaps = keys @ keys.mT
        system = overlaps * strengths.mT
        retrieved = keys.new_empty(*keys.shape[:3], queries.shape[-1])
        ends = keys.new_empty(keys.shape[0], keys.shape[1], *queries.shape[1:])
        walker = queries
        for n in reversed(range(keys.shape[1])):
            ends[:, n] = walker
            # k_t·p_t + Σ_{s>t} (k_t·k_s) β_s (k_s·p_s) = k_t·p_end; the solver looks at s > t only.
            retrieved[:, n] = torch.linalg.solve_triangular(
                system[:, n], keys[:, n] @ walker, upper=True, unitriangular=True
            )
            walker = walker - keys[:, n].mT @ (strengths[:, n] * retrieved[:, n])
        ctx.save_for_backward(keys, strengths, system, retrieved, ends)
        return strengths * retrieved

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_weights: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        keys, strengths, system, retrieved, ends = ctx.saved_tensors
        errors, starts = torch.empty_like(retrieved), torch.empty_like(ends)
        walker = torch.zeros_like(ends[:, 0])
        for n in range(keys.shape[1]):
            starts[:, n] = walker
            errors[:, n] = torch.linalg.solve_triangular(
                system[:, n], d_weights[:, n] - keys[:, n] @ walker, upper=False, unitriangular=True
            )
            walker = walker + keys[:, n].mT @ (strengths[:, n] * errors[:, n])
        weights, d_retrieved = strengths * retrieved, strengths * errors
        later, earlier = (d_retrieved @ weights.mT).triu(1), (weights @ d_retrieved.mT).tril(-1)
        # ∂k_t = ∂c_t p_t - w_t g_{t-1}, where p and g are what comes from outside the block and the rest from its keys.
        d_keys = (d_retrieved @ ends.mT).flatten(0, 1)
        d_keys.baddbmm_(weights.flatten(0, 1), starts.mT.flatten(0, 1), alpha=-1)
        d_keys.baddbmm_((later + earlier).flatten(0, 1), keys.flatten(0, 1), alpha=-1)
        return d_keys.view_as(keys), walker, (retrieved * errors).sum(dim=-1, keepdim=True)
