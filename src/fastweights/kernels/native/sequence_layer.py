"""Everything between the projections of a layer as one node of autograd's graph, by the kernels of maps and scan.

Queries, keys, values and the logits of β lie side by side in one tensor. As many nodes, their gradients would each get
memory of their own and be copied together afterwards; here most of them are written to their place at once.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from typing_extensions import override

from fastweights.kernels.features import MapKernel
from fastweights.kernels.native.buffer_pool import empty
from fastweights.kernels.native.scan import scan_backward, scan_forward
from fastweights.kernels.transforms import differentiated_again


class LayerShape(NamedTuple):
    """What lies side by side in the projected inputs, and how queries and keys are mapped."""

    heads: int
    key_dim: int
    value_dim: int
    map: MapKernel
    normalise: int
    strength: float | None
    """The largest β of a delta rule; None for the sum rule."""

    def split(self, projected: Tensor) -> list[Tensor]:
        """b t (h·d + h·d + h·v + h) → queries, keys and values as b h t ·, the logits of β as b h t (or none)."""
        dims = [self.key_dim, self.key_dim, self.value_dim, *([1] if self.strength is not None else [])]
        parts = projected.split([self.heads * dim for dim in dims], dim=-1)
        return [part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in parts]


def mix(projected: Tensor, weights: Tensor, shape: LayerShape) -> tuple[Tensor, Tensor]:
    """W ← W + β (v - W φ'(k)) φ'(k)ᵀ with β = c σ(logit), or W ← W + v φ'(k)ᵀ;   y = W φ'(q).

    Returns all reads y, b h t v, and the last W.
    """
    reads, final = _Mixing.apply(projected, weights, shape)
    return reads, final


class _Mixing(torch.autograd.Function):
    @staticmethod
    @override
    def forward(ctx: Any, projected: Tensor, weights: Tensor, shape: LayerShape) -> tuple[Tensor, Tensor]:
        reads, final, *saved = _by_parts(projected, weights, shape)
        ctx.save_for_backward(projected, weights, *saved)
        ctx.shape = shape
        ctx.set_materialize_grads(False)
        return reads, final

    @staticmethod
    @override
    def backward(ctx: Any, grad_reads: Tensor | None, grad_final: Tensor | None) -> tuple[Tensor | None, ...]:
        if differentiated_again(grad_reads, grad_final):
            return *_differentiate_parts(ctx, grad_reads, grad_final), None
        projected, weights, mapped_queries, mapped_keys, erase, write, retrieved, checkpoints = ctx.saved_tensors
        shape: LayerShape = ctx.shape
        queries, keys, values, *logits = shape.split(projected)
        found = scan_backward(
            *(torch.zeros_like(values) if grad_reads is None else grad_reads, grad_final, mapped_queries, mapped_keys),
            *(values, erase, write, weights, None, None, retrieved, checkpoints),
        )
        result = empty(projected.shape, projected)
        grad_queries, grad_keys, grad_values, *grad_logits = shape.split(result)
        compiled, parameters = shape.map
        for x, grad, into in ((queries, found[0], grad_queries), (keys, found[1], grad_keys)):
            compiled.differentiate(grad, x, list(parameters), shape.normalise, into)
        grad_values.copy_(found[2])
        if shape.strength is not None:
            grad = _scaled(found[3] + found[4], shape.strength)
            sigmoid = erase if shape.strength == 1.0 else logits[0].squeeze(-1).sigmoid()
            share = torch.ops.aten.sigmoid_backward(grad, sigmoid)
            grad_logits[0].squeeze(-1).copy_(share)
        return result, found[5] if ctx.needs_input_grad[1] else None, None


def _by_parts(projected: Tensor, weights: Tensor, shape: LayerShape) -> tuple[Tensor, ...]:
    """Reads, final weights and what the backward pass needs, by operators that are differentiable one by one."""
    queries, keys, values, *logits = shape.split(projected)
    compiled, parameters = shape.map
    mapped = [compiled(x, list(parameters), shape.normalise) for x in (queries, keys)]
    erase, write = _strengths(logits, shape, keys)
    reads, final, *saved = scan_forward(*mapped, values, erase, write, weights, None, None, True)
    return reads, final, *mapped, erase, write, *saved


def _differentiate_parts(ctx: Any, *gradients: Tensor | None) -> list[Tensor | None]:
    """The gradients by parts, each of which refuses if it is differentiated again and cannot be."""
    (projected, weights), needed = ctx.saved_tensors[:2], ctx.needs_input_grad[:2]
    with torch.enable_grad():
        outputs = _by_parts(projected, weights, ctx.shape)
    reached = [(y, gradient) for y, gradient in zip(outputs[:2], gradients, strict=True) if gradient is not None]
    ends, upstream = zip(*reached, strict=True)
    asked = [x for x, wanted in zip((projected, weights), needed, strict=True) if wanted]
    found = iter(torch.autograd.grad(ends, asked, upstream, create_graph=torch.is_grad_enabled()))
    return [next(found) if wanted else None for wanted in needed]


def _strengths(logits: list[Tensor], shape: LayerShape, keys: Tensor) -> tuple[Tensor, Tensor]:
    """`erase` and `write`: β and β, or for the sum rule 0 and 1."""
    if shape.strength is None:
        ones = torch.ones_like(keys[..., 0])
        return torch.zeros_like(ones), ones
    beta = _scaled(logits[0].squeeze(-1).sigmoid(), shape.strength)
    return beta, beta


def _scaled(x: Tensor, factor: float) -> Tensor:
    return x if factor == 1.0 else factor * x
