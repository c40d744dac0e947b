"""The loss of a softmax over many words, which computes the probabilities once for both passes."""

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import linear, log_softmax
from typing_extensions import override

from fastweights.kernels import products
from fastweights.kernels.native.buffer_pool import empty
from fastweights.kernels.transforms import active_transform, differentiated_again

CHUNK_BYTES = 1 << 20
"""Rows are differentiated in chunks of this many bytes, which stay in the cache."""


def softmax_losses(
    hidden: Float[Tensor, "n d"],
    weights: Float[Tensor, "words d"],
    bias: Float[Tensor, " words"] | None,
    targets: Int[Tensor, " n"],
    smoothing: float = 0.0,
) -> Float[Tensor, " n"]:
    """-log softmax(W h + b) of the target, for every row h.

    With smoothing ε: (1 - ε - e) nll + e Σ_v nll_v and e = ε / (V - 1).
    """
    if not 0 <= smoothing < 1:
        raise ValueError(f"smoothing: expected a probability below 1, got {smoothing}")
    if torch.compiler.is_compiling() or active_transform() != "none":
        # A compiler fuses these passes itself.
        return _by_definition(hidden, weights, bias, targets, smoothing)
    losses: Tensor = _SoftmaxLosses.apply(hidden, weights, bias, targets, smoothing)
    return losses


class _SoftmaxLosses(torch.autograd.Function):
    """With the derivatives p of the losses by the logits:  dh = g pW,  dW = pᵀ(g h),  db = pᵀg."""

    @staticmethod
    @override
    def forward(
        ctx: Any, hidden: Tensor, weights: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
    ) -> Tensor:
        logits = _logits(hidden, weights, bias)
        rows = max(1, CHUNK_BYTES // (logits.shape[1] * logits.element_size()))
        chunks = zip(logits.split(rows), targets.split(rows), strict=True)
        losses = torch.cat([_differentiate(some, words, smoothing) for some, words in chunks])
        # From here on `logits` are the derivatives.
        ctx.save_for_backward(hidden, weights, bias, targets, logits)
        ctx.smoothing = smoothing
        return _smoothed(losses, hidden, weights, bias, targets, smoothing)

    @staticmethod
    @override
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        hidden, weights, bias, targets, p = ctx.saved_tensors
        if differentiated_again(gradient):
            with torch.enable_grad():
                losses = _by_definition(hidden, weights, bias, targets, ctx.smoothing)
            needed = ctx.needs_input_grad[:3]
            asked = [x for x, wanted in zip((hidden, weights, bias), needed, strict=True) if wanted]
            found = iter(torch.autograd.grad(losses, asked, gradient, create_graph=torch.is_grad_enabled()))
            return *(next(found) if wanted else None for wanted in needed), None, None
        # Products in the dtype of the forward product, which is lower under autocast.
        g = gradient[:, None]
        d_hidden = g * (p @ weights.to(p.dtype)).to(hidden.dtype)
        d_weights = p.mT @ (g * hidden).to(p.dtype)
        d_bias = None if bias is None else (gradient.to(p.dtype) @ p).to(bias.dtype)
        return d_hidden.to(hidden.dtype), d_weights.to(weights.dtype), d_bias, None, None


def _differentiate(logits: Tensor, targets: Tensor, smoothing: float) -> Tensor:
    """-log p of the targets; every logit is replaced by p less what the smoothed target gives its word."""
    scores, places = logits.to(_at_least_float32(logits)), targets[:, None]
    p = torch.softmax(scores, dim=-1)
    # The likeliest word has p = 1 / Σ exp(l_v - max l).
    losses = scores.amax(dim=1) - scores.gather(1, places)[:, 0] - p.amax(dim=1).log()
    share = _share(smoothing, logits.shape[1])
    p.scatter_add_(1, places, p.new_full(places.shape, smoothing + share - 1))
    logits.copy_(p.sub_(share) if smoothing else p)
    return losses


def _smoothed(
    losses: Tensor, hidden: Tensor, weights: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float
) -> Tensor:
    """nll + (ε + e) l_y - e (h·Σ_v W_v + Σ_v b_v) with the target's logit l_y: no second pass over the logits."""
    if not smoothing:
        return losses
    share = _share(smoothing, len(weights))
    chosen, total = (hidden * weights[targets]).sum(dim=1), hidden @ weights.sum(dim=0)
    if bias is not None:
        chosen, total = chosen + bias[targets], total + bias.sum()
    return losses + (smoothing + share) * chosen - share * total


def _share(smoothing: float, words: int) -> float:
    """e = ε / (V - 1): what each word but the target gets."""
    return smoothing / (words - 1) if smoothing else 0.0


def _by_definition(hidden: Tensor, weights: Tensor, bias: Tensor | None, targets: Tensor, smoothing: float) -> Tensor:
    losses = -log_probabilities(linear(hidden, weights, bias)).gather(1, targets[:, None])[:, 0]
    return _smoothed(losses, hidden, weights, bias, targets, smoothing)


def _logits(hidden: Tensor, weights: Tensor, bias: Tensor | None) -> Tensor:
    if hidden.device.type == "meta" or torch.is_autocast_enabled(hidden.device.type) or products.are_replaced():
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
