"""Absolute sinusoidal positions (Vaswani et al., 2017)."""

import math

import torch
from torch import Tensor, nn
from typing_extensions import override

from fastweights.memory.packing import places
from fastweights.shapes import Inputs, Mask, Steps


def sinusoids(places: Tensor, model_dim: int, dtype: torch.dtype) -> Tensor:
    """[sin(i ω), cos(i ω)] with ω_j = 10000^(-2j / D), for every place i.

    Angles are in float32 at least: bfloat16 cannot tell place 256 from place 257.
    """
    exact = torch.promote_types(dtype, torch.float32)
    even = torch.arange(0, model_dim, 2, device=places.device, dtype=exact)
    angles = places[..., None] * torch.exp(-math.log(10_000) * even / model_dim)
    return torch.cat([angles.sin(), angles.cos()], dim=-1).to(dtype)


class SinusoidalPositions(nn.Module):
    """x_i + [sin(i ω), cos(i ω)].

    `steps` is the number of real steps that each sequence has seen before, as in a layer's state.
    Where `boundaries` are true a packed sequence begins, and with it the count.
    """

    def __init__(self, model_dim: int) -> None:
        super().__init__()
        if model_dim < 2 or model_dim % 2:
            raise ValueError(f"model_dim: sinusoidal positions need an even number of components, got {model_dim}")
        self.model_dim = model_dim

    @override
    def forward(
        self, x: Inputs, steps: Steps | None = None, mask: Mask | None = None, boundaries: Mask | None = None
    ) -> Inputs:
        if boundaries is not None:
            return x + sinusoids(places(boundaries, mask, steps), self.model_dim, x.dtype)
        positions = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
        if mask is not None:
            positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
        if steps is not None:
            positions = positions + steps[:, None]
        return x + sinusoids(positions, self.model_dim, x.dtype)
