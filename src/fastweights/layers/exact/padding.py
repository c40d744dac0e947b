"""How the layers check a mask and clear the padded steps."""

import torch
from torch import Tensor

from fastweights.shapes import Inputs, Mask


def check_inputs(x: Inputs, mask: Mask | None, model_dim: int) -> None:
    """Raise a ValueError if `x` or `mask` do not have the shape a layer takes."""
    if x.dim() != 3 or x.shape[-1] != model_dim:
        raise ValueError(f"x: expected shape (b, t, {model_dim}), got {tuple(x.shape)}")
    if not x.is_floating_point():
        raise TypeError(f"x: expected a floating-point tensor, got {x.dtype}")
    if mask is not None and (mask.dtype != torch.bool or mask.shape != x.shape[:2]):
        raise ValueError(
            f"mask: expected a bool tensor of shape {tuple(x.shape[:2])}, true for real steps, "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )


def without_padding(x: Inputs, mask: Mask | None) -> Tensor:
    """`x` with zeros in its padded steps: whatever they hold, NaN included, then reaches no product and no gradient."""
    return x if mask is None else x.masked_fill(~mask[..., None], 0.0)
