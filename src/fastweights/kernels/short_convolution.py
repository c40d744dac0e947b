"""A causal convolution over a few steps, each channel for itself, in blocks of steps that stay in the cache.

    z_t = bias + Σ_lag w_{-1-lag} ∘ x_{t-lag},   y_t = silu(z_t) or z_t

PyTorch's own wants channels before steps. Layers compute steps before channels, so that it copies its input and
whoever reads its output copies that, each more expensive than the sum itself.
"""

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import conv1d, silu

from fastweights.kernels.transforms import active_transform, differentiated_again

BLOCK = 1 << 17
"""Numbers that are computed together."""


def short_convolution(
    x: Float[Tensor, "b t c"],
    weight: Float[Tensor, "c w"],
    bias: Float[Tensor, " c"] | None = None,
    activated: bool = True,
) -> Float[Tensor, "b t c"]:
    """The convolution from nothing before the first step; the last column of `weight` is for the step itself."""
    plain = torch.compiler.is_compiling() or active_transform() != "none" or x.device.type != "cpu"
    if plain or not x.numel():
        return definition(x, weight, bias, activated)
    result: Tensor = _InBlocks.apply(x, weight, bias, activated)
    return result


def definition(x: Tensor, weight: Tensor, bias: Tensor | None, activated: bool) -> Tensor:
    """The same by PyTorch's convolution."""
    if not x.numel():
        return x + 0 * weight.sum(dim=1)
    z = conv1d(x.mT, weight[:, None], bias, padding=weight.shape[1] - 1, groups=weight.shape[0])[..., : x.shape[1]].mT
    return silu(z) if activated else z


class _InBlocks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None, activated: bool) -> Tensor:
        ctx.save_for_backward(x, weight, bias)
        ctx.activated = activated
        x = x if x.stride(2) == 1 else _turned(x)
        y, taps = torch.empty_like(x, memory_format=torch.contiguous_format), weight.mT.contiguous()
        for inputs, outputs in zip(x, y, strict=True):
            for block in _blocks(inputs):
                _convolve(inputs, taps, bias, block, outputs[block])
                if activated:
                    silu(outputs[block], inplace=True)
        return y

    @staticmethod
    def backward(ctx: Any, d_y: Tensor) -> tuple[Tensor | None, ...]:
        given = ctx.saved_tensors
        if differentiated_again(d_y):
            return *_gradients_of_definition(given, ctx.activated, d_y, ctx.needs_input_grad), None
        x, weight, bias = given
        x, d_y = (z if z.stride(2) == 1 else _turned(z) for z in (x, d_y))
        taps = weight.mT.contiguous()
        d_x, d_taps = torch.zeros_like(x, memory_format=torch.contiguous_format), torch.zeros_like(taps)
        d_bias = None if bias is None else torch.zeros_like(bias)
        for inputs, d_inputs, d_outputs in zip(x, d_x, d_y, strict=True):
            for block in _blocks(inputs):
                d_z = d_outputs[block]
                if ctx.activated:
                    z = torch.empty_like(d_z, memory_format=torch.contiguous_format)
                    _convolve(inputs, taps, bias, block, z)
                    d_z = torch.ops.aten.silu_backward(d_z, z)
                for lag, (late, early) in enumerate(_lagged(block, len(taps))):
                    behind = d_z[late.start - block.start :]
                    d_inputs[early].addcmul_(behind, taps[-1 - lag])
                    d_taps[-1 - lag] += (behind * inputs[early]).sum(dim=0)
                if d_bias is not None:
                    d_bias += d_z.sum(dim=0)
        return d_x, d_taps.mT, d_bias, None


def _turned(x: Tensor) -> Tensor:
    """With contiguous rows; PyTorch turns a matrix block by block, but larger tensors number by number."""
    return torch.stack([row.contiguous() for row in x])


def _blocks(rows: Float[Tensor, "t c"]) -> Iterator[slice]:
    steps, size = rows.shape[0], max(16, BLOCK // rows.shape[1])
    return (slice(start, min(start + size, steps)) for start in range(0, steps, size))


def _lagged(block: slice, width: int) -> Iterator[tuple[slice, slice]]:
    """For every lag, the steps of the block that look back so far, and the steps that they see."""
    for lag in range(min(width, block.stop)):
        late = slice(max(block.start, lag), block.stop)
        yield late, slice(late.start - lag, late.stop - lag)


def _convolve(inputs: Tensor, taps: Tensor, bias: Tensor | None, block: slice, out: Tensor) -> None:
    """z of a block."""
    if bias is None:
        torch.mul(inputs[block], taps[-1], out=out)
    else:
        torch.addcmul(bias, inputs[block], taps[-1], out=out)
    for lag, (late, early) in enumerate(_lagged(block, len(taps))):
        if lag:
            out[late.start - block.start :].addcmul_(inputs[early], taps[-1 - lag])


def _gradients_of_definition(
    given: tuple[Tensor | None, ...], activated: bool, d_y: Tensor, needed: tuple[bool, ...]
) -> list[Tensor | None]:
    """The gradients as a graph that can be differentiated again."""
    with torch.enable_grad():
        x, weight, bias = given
        assert x is not None
        assert weight is not None
        y = definition(x, weight, bias, activated)
    wanted = [one for one, wants in zip(given, needed, strict=False) if wants and one is not None]
    found = iter(torch.autograd.grad(y, wanted, d_y, create_graph=torch.is_grad_enabled()))
    return [next(found) if wants and one is not None else None for one, wants in zip(given, needed, strict=False)]
