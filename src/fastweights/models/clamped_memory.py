"""The memory of Schlag et al. (2021): the delta rule with the Frobenius norm of W kept to at most 1 (Sec. 6.1.2).

The clamp makes the rule non-linear in W, so it runs step by step. The norm needs no pass over W, because
|W + u ⊗ k|² = |W|² + 2 u·(W k) + |u|² |k|², and the gradient of X / |X| is a projection that needs only the result.
"""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


def clamped_memory(
    keys: Float[Tensor, "b t k"],
    values: Float[Tensor, "b t v"],
    strengths: Float[Tensor, "b t"],
    clamp_first_write: bool,
) -> Float[Tensor, "b v k"]:
    """W_L, where W_t = X / max(1, |X|), X = W_{t-1} + β_t (v_t - W_{t-1} k_t) ⊗ k_t and W_0 = 0."""
    arguments = (keys.transpose(0, 1), values.transpose(0, 1), strengths.T[..., None], clamp_first_write)
    weights: Tensor = _Steps.apply(*arguments)
    return weights


class _Steps(torch.autograd.Function):
    """Shapes: keys t b k, values t b v, strengths t b 1; every W is kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, keys: Tensor, values: Tensor, strengths: Tensor, clamp_first_write: bool) -> Tensor:
        steps, batch, key_dim = keys.shape
        weights = keys.new_zeros(steps + 1, batch, values.shape[-1], key_dim)
        scales, retrieved = torch.ones_like(strengths), torch.empty_like(values)
        lengths = keys.square().sum(dim=-1, keepdim=True)
        squared_norm = torch.zeros_like(strengths[0])
        for t in range(steps):
            torch.bmm(weights[t], keys[t, :, :, None], out=retrieved[t, :, :, None])
            change = (values[t] - retrieved[t]).mul_(strengths[t])
            squared_norm = (
                squared_norm
                + 2 * torch.linalg.vecdot(change, retrieved[t])[:, None]
                + lengths[t] * change.square().sum(dim=-1, keepdim=True)
            )
            if t > 0 or clamp_first_write:
                scales[t] = squared_norm.clamp(min=1).rsqrt_()
                squared_norm = squared_norm.clamp(min=0, max=1)
            torch.mul(change[:, :, None] * scales[t, :, :, None], keys[t, :, None], out=weights[t + 1])
            weights[t + 1].addcmul_(weights[t], scales[t, :, :, None])
        ctx.save_for_backward(keys, values, strengths, weights, scales, retrieved)
        return weights[steps].clone()

    @staticmethod
    @once_differentiable  # type: ignore[no-untyped-call,untyped-decorator,unused-ignore]
    def backward(ctx: Any, d_weights: Tensor) -> tuple[Tensor | None, ...]:
        keys, values, strengths, weights, scales, retrieved = ctx.saved_tensors
        errors = values - retrieved
        changes = strengths * errors
        d_keys, d_values, d_strengths = (torch.empty_like(x) for x in (keys, values, strengths))
        gradient = d_weights.clone()
        for t in reversed(range(keys.shape[0])):
            key, change = keys[t, :, :, None], changes[t, :, :, None]
            # Where the clamp acted, only what is orthogonal to W_t passes, divided by the norm.
            along = torch.linalg.vecdot(gradient.flatten(1), weights[t + 1].flatten(1))[:, None, None]
            gradient.addcmul_(weights[t + 1], along * (scales[t, :, :, None] < 1), value=-1)
            gradient.mul_(scales[t, :, :, None])
            d_change = gradient @ key
            d_retrieved = -strengths[t, :, :, None] * d_change
            d_keys[t] = (gradient.mT @ change + weights[t].mT @ d_retrieved)[..., 0]
            d_values[t] = -d_retrieved[..., 0]
            d_strengths[t] = torch.linalg.vecdot(d_change[..., 0], errors[t])[:, None]
            gradient.addcmul_(d_retrieved, key.mT)
        return d_keys, d_values, d_strengths, None
