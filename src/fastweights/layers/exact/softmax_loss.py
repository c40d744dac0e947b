"""The loss of a softmax over many words, whose backward pass reads the probabilities once."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import linear, log_softmax
from typing_extensions import override

from fastweights.kernels.native.buffer_pool import empty
from fastweights.kernels.transforms import active_transform, differentiated_again

CHUNK_BYTES = 1 << 20
"""Rows are normalised in chunks of this many bytes, which stay in the cache."""


def softmax_losses(
    hidden: Float[Tensor, "n d"],
    weights: Float[Tensor, "words d"],
    bias: Float[Tensor, " words"] | None,
    targets: Int[Tensor, " n"],
    smoothing: float = 0.0,
) -> Float[Tensor, " n"]:
    """-log softmax(W h + b) of the target, for every row h.

    With smoothing ε: (1 - ε - e) nll + e Σ_v nll_v and e = ε / (V - 1), which is
    nll + (ε + e) l_y - e (h·Σ_v W_v + Σ_v b_v) with the target's logit l_y: no second pass over the logits.
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing: expected a probability below 1, got {smoothing}")
    if torch.compiler.is_compiling() or active_transform() != "none":
        # A compiler fuses these passes itself.
        losses = _by_definition(hidden, weights, bias, targets)
    else:
        losses = _SoftmaxLosses.apply(hidden, weights, bias, targets)
    if not smoothing:
        return losses
    share = smoothing / (len(weights) - 1)
    chosen, total = (hidden * weights[targets]).sum(dim=1), hidden @ weights.sum(dim=0)
    if bias is not None:
        chosen, total = chosen + bias[targets], total + bias.sum()
    return losses + (smoothing + share) * chosen - share * total


class _SoftmaxLosses(torch.autograd.Function):
    """With p = softmax(W h + b) less one at the target:  dh = g pW,  dW = pᵀ(g h),  db = pᵀg."""

    @staticmethod
    @override
    def forward(ctx: Any, hidden: Tensor, weights: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
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
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weights, bias, targets, logits = ctx.saved_tensors
        if differentiated_again(gradient):
            with torch.enable_grad():
                losses = _by_definition(hidden, weights, bias, targets)
            needed = ctx.needs_input_grad[:3]
            asked = [x for x, wanted in zip((hidden, weights, bias), needed, strict=True) if wanted]
            found = iter(torch.autograd.grad(losses, asked, gradient, create_graph=torch.is_grad_enabled()))
            return *(next(found) if wanted else None for wanted in needed), None
        scores = logits.to(_at_least_float32(logits))
        p = torch.softmax(scores, dim=-1, out=empty(scores.shape, scores))
        p[torch.arange(len(p), device=p.device), targets] -= 1
        # Products in the dtype of the forward product, which is lower under autocast.
        p, g = p.to(logits.dtype), gradient[:, None]
        d_hidden = g * (p @ weights.to(p.dtype)).to(hidden.dtype)
        d_weights = p.mT @ (g * hidden).to(p.dtype)
        d_bias = None if bias is None else (gradient.to(p.dtype) @ p).to(bias.dtype)
        return d_hidden.to(hidden.dtype), d_weights.to(weights.dtype), d_bias, None


def _by_definition(hidden: Tensor, weights: Tensor, bias: Tensor | None, targets: Tensor) -> Tensor:
    return -log_probabilities(linear(hidden, weights, bias)).gather(1, targets[:, None])[:, 0]


def _logits(hidden: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    if hidden.device.type == "meta" or torch.is_autocast_enabled(hidden.device.type):
        return linear(hidden, weights, bias)
    result = empty((len(hidden), len(weights)), hidden)
    if bias is None:
        return torch.mm(hidden, weights.mT, out=result)
    return torch.addmm(bias, hidden, weights.mT, out=result)


def log_probabilities(logits: Tensor) -> Tensor:
    """log softmax, in float32 at least."""
    return log_softmax(logits.to(_at_least_float32(logits)), dim=-1)


def _at_least_float32(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
