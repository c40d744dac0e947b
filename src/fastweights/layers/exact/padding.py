"""What the layers do about padding, before anything else sees it."""

import torch
from torch import Tensor

from fastweights.shapes import Inputs, Mask


def check_inputs(x: Inputs, mask: Mask | None, model_dim: int) -> None:
    """A ValueError if `x` or `mask` do not have the shape a layer takes."""
    if x.dim() != 3 or x.shape[-1] != model_dim:
        raise ValueError(f"x: expected shape (b, t, {model_dim}), got {tuple(x.shape)}")
    if mask is not None and (mask.dtype != torch.bool or mask.shape != x.shape[:2]):
        raise ValueError(
            f"mask: expected a bool tensor of shape {tuple(x.shape[:2])}, true for real steps, "
            f"got {mask.dtype} of shape {tuple(mask.shape)}"
        )


def without_padding(x: Inputs, mask: Mask | None) -> Tensor:
    """`x` with zeros in its padded steps, so that whatever stood there, NaN included, reaches no product or gradient.

    On the CPU, steps after the last real one of any sequence are cut off, so that a sequence and its right-padded form
    go through the very same arithmetic.
    """
    if mask is None:
        return x
    x = x.masked_fill(~mask[..., None], 0.0)
    if torch.compiler.is_compiling() or x.device.type != "cpu":
        return x
    real = mask.any(dim=0).nonzero()
    return x[:, : int(real[-1]) + 1] if len(real) else x[:, :0]


def with_steps(y: Tensor, steps: int) -> Tensor:
    """`y` with zeros for the steps that were cut off."""
    return torch.nn.functional.pad(y, (0, 0, 0, steps - y.shape[1])) if y.shape[1] < steps else y
