"""How the layers check inputs and masks and clear the padded steps."""

import torch
from torch import Tensor, nn

from fastweights.kernels.transforms import active_transform
from fastweights.shapes import Inputs, Mask


def check_inputs(x: Inputs, mask: Mask | None, model_dim: int, projection: nn.Module | None = None) -> None:
    """Raise an error if `x` or `mask` do not have the shape a layer takes, or `projection` cannot multiply `x`."""
    if x.dim() != 3 or x.shape[-1] != model_dim:
        raise ValueError(f"x: expected shape (b, t, {model_dim}), got {tuple(x.shape)}")
    if not x.is_floating_point():
        raise TypeError(f"x: expected a floating-point tensor, got {x.dtype}")
    if mask is not None and (mask.dtype != torch.bool or mask.shape != x.shape[:2]):
        raise ValueError(
            f"mask: expected a bool tensor of shape {tuple(x.shape[:2])}, true for real steps, "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )
    # Only torch's own: a module that was wrapped, sharded or quantised may convert its input.
    if type(projection) is nn.Linear and x.dtype != projection.weight.dtype:
        _refuse_dtype(x, projection)


def _refuse_dtype(x: Tensor, projection: nn.Linear) -> None:
    """Raise a TypeError unless autocast or a hook converts `x`; torch itself reports tensors on the meta device."""
    if x.is_meta or torch.is_autocast_enabled(x.device.type) or projection._forward_pre_hooks:
        return
    expected = projection.weight.dtype
    raise TypeError(
        f"x: expected {expected}, the dtype of the layer's weights, got {x.dtype}; possible: x.to({expected}), "
        f"layer.to({x.dtype}), or torch.autocast around the call"
    )


def is_readable(x: Tensor) -> bool:
    """Whether a check may look at the values of `x`: not on the meta device, nor while a call is compiled or traced."""
    return not (
        torch.compiler.is_compiling()
        or x.is_meta
        or type(x) is not Tensor
        or torch._C._get_tracing_state() is not None
        or torch._C._len_torch_dispatch_stack() > 0
        or active_transform() != "none"
    )


def without_padding(x: Inputs, mask: Mask | None) -> Tensor:
    """`x` with zeros in its padded steps: whatever they hold, NaN included, then reaches no product and no gradient."""
    return x if mask is None else x.masked_fill(~mask[..., None], 0.0)
