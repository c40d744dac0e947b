"""Dropout with cheap random numbers on a CPU."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

LANES = 4
"""16-bit random numbers in one 64-bit number of the generator."""
LEVELS = 1 << 16


class Dropout(nn.Dropout):
    """y = x m / (1 - p),   m ~ Bernoulli(1 - p).

    On a CPU each m takes 16 random bits instead of a floating-point number, which is three times faster: p is rounded
    to a multiple of 2⁻¹⁶, and the division is by exactly that probability. Random bits come from torch's generator, or
    from one generator for each sequence of the batch, so that a mask does not depend on the other sequences.
    """

    generators: Sequence[torch.Generator] | None = None

    @override
    def forward(self, x: Tensor) -> Tensor:
        dropped = round(self.p * LEVELS)
        if x.device.type != "cpu" or not self.training or not 0 < dropped < LEVELS or torch.compiler.is_compiling():
            return super().forward(x)
        kept = self._numbers(x) >= dropped - LEVELS // 2
        return x * kept.to(x.dtype).mul_(LEVELS / (LEVELS - dropped))

    def _numbers(self, x: Tensor) -> Tensor:
        """Uniform 16-bit numbers in the shape of x."""
        if self.generators is None:
            bits = torch.empty(-(-x.numel() // LANES), dtype=torch.int64).random_(-(2**63), None)
            return bits.view(torch.int16)[: x.numel()].view(x.shape)
        size = x[0].numel()
        bits = torch.empty(len(x), -(-size // LANES), dtype=torch.int64)
        for row, generator in zip(bits, self.generators, strict=True):
            row.random_(-(2**63), None, generator=generator)
        return bits.view(torch.int16)[:, :size].reshape(x.shape)
