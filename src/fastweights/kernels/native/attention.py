"""Attention by the kernel κ(q, k) = φ(q)·φ(k) over short sequences (csrc/attention/): features stay in the cache."""

import struct
from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad
from typing_extensions import override

from fastweights.kernels.native import library
from fastweights.kernels.native.buffer_pool import empty_like
from fastweights.kernels.native.library import ELEMENT_BYTES, contiguous_rows, sequence
from fastweights.kernels.transforms import differentiated_again

MAPS = ("dpfp", "elu_plus_one", "favor")
"""The maps that the kernel knows, by their numbers."""
WHOLE_VECTORS = 16
"""Numbers in the widest vector: rows of a multiple of so many suit every instruction set."""

Definition = Callable[[Tensor, Tensor, Tensor], Tensor]
"""The same attention of queries, keys and values in PyTorch: second derivatives are taken of it."""


class AttentionKernel(NamedTuple):
    """A map of `MAPS`, its integer parameter (ν of DPFP, m of FAVOR+) and its number of features."""

    name: Literal["dpfp", "elu_plus_one", "favor"]
    parameter: int
    features: int


class Masking(NamedTuple):
    """Which steps are real, and whether queries see only the steps up to their own."""

    mask: Tensor | None
    causal: bool


def fused_attention(
    kernel: AttentionKernel | None,
    tensors: tuple[Tensor, Tensor, Tensor],
    masking: Masking,
    projection: Tensor | None,
    definition: Definition,
) -> Tensor | None:
    """y_i = Σ_j κ(q_i, k_j) v_j / Σ_j κ(q_i, k_j) of unmapped queries and keys; None if no kernel computes it here."""
    if kernel is None or library.unavailable() is not None or library.needs_dispatcher(tensors):
        return None
    if any(0 in x.shape for x in tensors):
        return None
    if any(x.device.type != "cpu" or x.dtype not in ELEMENT_BYTES or x.dtype != tensors[0].dtype for x in tensors):
        return None
    result: Tensor = _Attention.apply(kernel, masking, projection, definition, *tensors)
    return result


class _Attention(torch.autograd.Function):
    """Saves the attention weights and one over their sums, b h t s and b h t, and makes the features again."""

    @staticmethod
    @override
    def forward(
        ctx: Any, kernel: AttentionKernel, masking: Masking, projection: Tensor | None, definition: Definition,
        queries: Tensor, keys: Tensor, values: Tensor,
    ) -> Tensor:  # fmt: skip
        batch, heads, steps, _ = queries.shape
        # b t h v seen as b h t v: a layer flattens heads and values without a copy.
        reads = queries.new_empty(batch, steps, heads, values.shape[-1]).transpose(1, 2)
        keep = any(ctx.needs_input_grad)
        weights = queries.new_empty((batch, heads, steps, keys.shape[2]) if keep else (0,))
        inverse = queries.new_empty((batch, heads, steps) if keep else (0,))
        _call(kernel, masking, projection, (queries, keys, values), reads, (weights, inverse) if keep else None)
        if keep:
            ctx.save_for_backward(queries, keys, values, weights, inverse)
            ctx.arguments = kernel, masking, projection, definition
        return reads

    @staticmethod
    @override
    def backward(ctx: Any, gradient: Tensor) -> tuple[Any, ...]:
        *tensors, weights, inverse = ctx.saved_tensors
        kernel, masking, projection, definition = ctx.arguments
        if differentiated_again(gradient):
            with torch.enable_grad():
                attended = definition(*tensors)
            found = torch.autograd.grad(attended, tensors, gradient, create_graph=torch.is_grad_enabled())
        else:
            found = tuple(empty_like(x) for x in tensors)
            gradients = (contiguous_rows(gradient), *found)
            _call(kernel, masking, projection, tuple(tensors), None, (weights, inverse), gradients)
        return None, None, None, None, *found


def _call(
    kernel: AttentionKernel,
    masking: Masking,
    projection: Tensor | None,
    tensors: tuple[Tensor, ...],
    reads: Tensor | None,
    kept: tuple[Tensor, Tensor] | None,
    gradients: tuple[Tensor, ...] = (),
) -> None:
    queries, keys, values = (contiguous_rows(x) for x in tensors)
    batch, heads, steps, dim = queries.shape
    rows = columns = None
    if projection is not None:
        scaled = projection.to(queries.dtype) * dim**-0.25
        rows, columns = _whole_vectors(scaled), _whole_vectors(scaled.T)
    mask = None if masking.mask is None else masking.mask.contiguous()
    sequences = (queries, keys, values)
    arguments = (
        *(batch, heads, steps, keys.shape[2], dim, values.shape[-1], kernel.features, int(masking.causal)),
        _bits(torch.finfo(queries.dtype).tiny ** 0.4),
        *(MAPS.index(kernel.name), kernel.parameter),
        *(_address(rows), _address(columns)),
        *(0 if x is None else x.stride(0) for x in (rows, columns)),
        _bits(dim**-0.5),
        *(number for x in sequences for number in sequence(x)),
        _address(mask),
        *sequence(reads),
        *(_address(x) for x in kept or (None, None)),
        *(number for x in gradients or (None,) * 4 for number in sequence(x)),
    )
    library.call("kernel_attention", arguments, queries.dtype)


def _whole_vectors(x: Tensor) -> Tensor:
    """A matrix with rows filled up with zeros to whole vectors."""
    return pad(x, (0, -x.shape[1] % WHOLE_VECTORS)).contiguous()


def _address(x: Tensor | None) -> int:
    return 0 if x is None else x.data_ptr()


def _bits(number: float) -> int:
    """A double as the 64-bit integer with the same bits."""
    (bits,) = struct.unpack("q", struct.pack("d", number))
    return int(bits)
