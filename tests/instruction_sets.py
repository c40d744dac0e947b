"""The instruction sets that the C++ kernel can use here, the slowest first, and what its results are held to."""

import torch

from fastweights.kernels.native import library

TOLERANCES = {torch.float64: (1e-12, 1e-12), torch.float32: (2e-6, 1e-5)}
"""Of reads and final weights, and of gradients, relative to the largest number."""


def switch_to(level: str) -> None:
    """Let the kernel use an instruction set that this processor has."""
    assert library.load().fastweights_use_level(level.encode())
    assert library.instructions() == level


def usable() -> list[str]:
    """Those of this processor; the best, which comes last, is left in use."""
    levels = [level for level in library.LEVELS if library.load().fastweights_use_level(level.encode())][::-1]
    switch_to(levels[-1])
    return levels
