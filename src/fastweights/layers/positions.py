"""Absolute sinusoidal positions (Vaswani et al., 2017)."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn
from typing_extensions import override

from fastweights.shapes import Inputs, Mask, Steps


def frequencies(model_dim: int) -> Float[Tensor, " half"]:
    """ω_j = 10000^(-j / (D/2))."""
    return torch.exp(-math.log(10_000) * torch.arange(0, model_dim, 2) / model_dim)


class SinusoidalPositions(nn.Module):
    """x_i + [sin(i ω), cos(i ω)].

    `steps` is how many steps each sequence has seen before, as the state of a layer tells; padded steps do not count.
    """

    frequencies: Tensor

    def __init__(self, model_dim: int) -> None:
        super().__init__()
        if model_dim < 2 or model_dim % 2:
            raise ValueError(f"model_dim: sinusoidal positions need an even number of components, got {model_dim}")
        self.register_buffer("frequencies", frequencies(model_dim), persistent=False)

    @override
    def forward(self, x: Inputs, steps: Steps | None = None, mask: Mask | None = None) -> Inputs:
        positions = torch.arange(x.shape[1], device=x.device).expand(x.shape[:2])
        if mask is not None:
            positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
        if steps is not None:
            positions = positions + steps[:, None]
        angles = positions[..., None] * self.frequencies
        return x + torch.cat([angles.sin(), angles.cos()], dim=-1).to(x.dtype)
