"""The loss of a softmax over many words, whose backward pass reads the probabilities once."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn.functional import linear, log_softmax
from typing_extensions import override

from fastweights.kernels.native.buffer_pool import empty

CHUNK_BYTES = 1 << 20
"""Rows are normalised in chunks of this many bytes, which stay in the cache."""


def softmax_losses(
    hidden: Float[Tensor, "n d"],
    weights: Float[Tensor, "words d"],
    bias: Float[Tensor, " words"],
    targets: Int[Tensor, " n"],
) -> Float[Tensor, " n"]:
    """-log softmax(W h + b) of the target, for every row h."""
    if torch.compiler.is_compiling():
        # A compiler fuses these passes itself.
        return -log_probabilities(linear(hidden, weights, bias)).gather(1, targets[:, None])[:, 0]
    result: Tensor = _SoftmaxLosses.apply(hidden, weights, bias, targets)
    return result


class _SoftmaxLosses(torch.autograd.Function):
    """With p = softmax(W h + b) less one at the target:  dh = g pW,  dW = pᵀ(g h),  db = pᵀg."""

    @staticmethod
    @override
    def forward(ctx: Any, hidden: Tensor, weights: Tensor, bias: Tensor, targets: Tensor) -> Tensor:
        logits = _logits(hidden, weights, bias)
        rows = max(1, CHUNK_BYTES // (logits.shape[1] * logits.element_size()))
        chosen = [
            log_probabilities(some).gather(1, words[:, None])[:, 0]
            for some, words in zip(logits.split(rows), targets.split(rows), strict=True)
        ]
        ctx.save_for_backward(hidden, weights, bias, targets, logits)
        return -torch.cat(chosen)

    @staticmethod
    @override
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor, None]:
        hidden, weights, bias, targets, logits = ctx.saved_tensors
        scores = logits.to(_at_least_float32(logits))
        p = torch.softmax(scores, dim=-1, out=empty(scores.shape, scores))
        p[torch.arange(len(p), device=p.device), targets] -= 1
        # Products in the dtype of the forward product, which is lower under autocast.
        p, g = p.to(logits.dtype), gradient[:, None]
        d_hidden = g * (p @ weights.to(p.dtype)).to(hidden.dtype)
        d_weights, d_bias = p.mT @ (g * hidden).to(p.dtype), gradient.to(p.dtype) @ p
        return d_hidden.to(hidden.dtype), d_weights.to(weights.dtype), d_bias.to(bias.dtype), None


def _logits(hidden: Tensor, weights: Tensor, bias: Tensor) -> Tensor:
    if torch.is_autocast_enabled(hidden.device.type):
        return linear(hidden, weights, bias)
    return torch.addmm(bias, hidden, weights.mT, out=empty((len(hidden), len(weights)), hidden))


def log_probabilities(logits: Tensor) -> Tensor:
    """log softmax, in float32 at least."""
    return log_softmax(logits.to(_at_least_float32(logits)), dim=-1)


def _at_least_float32(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
