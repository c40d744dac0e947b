"""Generation by the C++ library: linear layers of few rows, and a step of a layer in two calls (csrc/generation/).

In generation every weight is multiplied once or a few times, and a call of torch takes as long as its arithmetic.
"""

import struct
from collections.abc import Iterable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import linear

from fastweights.kernels.native import library
from fastweights.kernels.native.library import ELEMENT_BYTES

MOST_ROWS = 8
"""For more rows torch's matrix product is faster."""
MAPS = ("dpfp", "elu_plus_one")
"""The maps that a step of a layer knows, by their numbers."""
OUT_OF_MEMORY, NOT_FINITE = 0, 2


def few_rows(x: Tensor, weights: Tensor, bias: Tensor | None = None) -> Tensor:
    """y = x Wᵀ + b: by the library if x has few rows and nothing is differentiated, else by torch."""
    rows = x.numel() // max(x.shape[-1], 1)
    if not (0 < rows <= MOST_ROWS and weights.shape[0] and serves((x, weights, bias), x.dtype)):
        return linear(x, weights, bias)
    x, outputs = x.contiguous(), len(weights)
    y = x.new_empty(*x.shape[:-1], outputs)
    inner = x.shape[-1]
    sizes = (rows, inner, outputs)
    data = (x.data_ptr(), weights.data_ptr(), 0 if bias is None else bias.data_ptr(), y.data_ptr())
    library.call("linear", (*sizes, *data, inner, inner, outputs, 0), x.dtype)
    return y


def serves(tensors: Iterable[Tensor | None], dtype: torch.dtype) -> bool:
    """Whether the library can read these tensors as they are, and nothing has to know about it."""
    if dtype not in ELEMENT_BYTES or library.unavailable() is not None or library.needs_dispatcher(()):
        return False
    if torch.is_autocast_enabled("cpu"):
        return False
    differentiates = torch.is_grad_enabled()
    for x in tensors:
        if x is None:
            continue
        # A parameter is a tensor like any other.
        if type(x) is not Tensor and type(x) is not torch.nn.Parameter:
            return False
        if x.dtype != dtype or not x.is_cpu or not x.is_contiguous() or x.is_neg():
            return False
        if differentiates and x.requires_grad:
            return False
    return True


class StepShape(NamedTuple):
    """What a step of a layer is beside its tensors."""

    heads: int
    key_dim: int
    value_dim: int
    map_number: int
    parameter: int
    normalise: int
    strength: float | None
    """The largest β of a delta rule; None for the sum rule."""
    read_scale: float


def attention_step(
    shape: StepShape, x: Tensor, projection: Tensor, output: Tensor, bias: Tensor | None, weights: Tensor
) -> tuple[Tensor, Tensor] | None:
    """The layer's output for one step and W after it; None if something is not finite, which the caller looks into."""
    y, final = torch.empty_like(x), torch.empty_like(weights)
    packed = struct.pack(
        "=10qdqd6q",
        *(x.shape[0], x.shape[-1], shape.heads, shape.key_dim, weights.shape[-1], shape.value_dim),
        *(shape.map_number, shape.parameter, shape.normalise, shape.strength is not None, shape.strength or 0.0),
        *(0 if bias is None else bias.data_ptr(), shape.read_scale),
        *(x.data_ptr(), projection.data_ptr(), output.data_ptr(), y.data_ptr(), weights.data_ptr(), final.data_ptr()),
    )
    return None if _call("attention_step", packed, x.dtype) == NOT_FINITE else (y, final)


class FeedForwardWeights(NamedTuple):
    """The parameters of what follows attention in a block: two layer norms and two linear layers."""

    attention_weight: Tensor
    attention_bias: Tensor
    weight: Tensor
    bias: Tensor
    first: Tensor
    first_bias: Tensor
    second: Tensor
    second_bias: Tensor


def feed_forward_step(
    x: Tensor, read: Tensor, weights: FeedForwardWeights, epsilons: tuple[float, float], pre_norm: bool
) -> Tensor:
    """The output of a block from its input and what its attention read."""
    y = torch.empty_like(x)
    norms, layers = weights[:4], weights[4:]
    packed = struct.pack(
        "=11q2d4q",
        *(x.shape[0], x.shape[-1], len(weights.first), pre_norm, x.data_ptr(), read.data_ptr(), y.data_ptr()),
        *(tensor.data_ptr() for tensor in norms),
        *epsilons,
        *(tensor.data_ptr() for tensor in layers),
    )
    _call("feed_forward_step", packed, x.dtype)
    return y


def _call(kernel: str, packed: bytes, dtype: torch.dtype) -> int:
    result: int = getattr(library.load(), f"fastweights_{kernel}")(
        packed, ELEMENT_BYTES[dtype], torch.get_num_threads()
    )
    if result == OUT_OF_MEMORY:
        raise MemoryError("the native kernel could not allocate its workspace")
    return result
