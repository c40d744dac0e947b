"""How large the blocks of a launch are, and in which precision it multiplies: everything that `auto` can choose."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

import torch

Precision = Literal["ieee", "tf32", "tf32x3"]
"""Of products of float32 numbers: in full, by tensor cores that see ten binary digits, or by these in three parts."""

CHUNKS = (16, 32)
"""Steps per chunk: the smallest that holds the sequence, or the largest. Chunks of 64 steps need more registers than
a thread has."""
BLOCKS_K: dict[str, tuple[int, ...]] = {"ieee": (16, 32), "tf32": (16, 32, 64)}
"""Features in a block, by the precision of products: the smallest that holds them all, or the largest."""
BLOCKS_V = (16, 32)
"""Value columns in a block, likewise."""


@dataclass(frozen=True)
class Configuration:
    """The compile-time parameters of the kernels of one scan."""

    chunk: int
    block_k: int
    block_v: int
    precision: Precision
    exact: Precision
    """Of the inverse of a chunk, whose errors every step would see."""
    warps: int = 4
    stages: int = 2

    def constants(self) -> dict[str, int | str]:
        """By the names that they have in kernels."""
        return {
            "C": self.chunk,
            "LEVELS": self.chunk.bit_length() - 1,
            "BLOCK_K": self.block_k,
            "BLOCK_V": self.block_v,
            "PRECISION": self.precision,
            "EXACT": self.exact,
        }


def choose(dtype: torch.dtype, steps: int, key_dim: int, value_dim: int) -> Configuration:
    """The configuration of a scan of these sizes.

    Products of float32 numbers are as exact as torch's (`torch.set_float32_matmul_precision`). Those of bfloat16 and
    float16 go through tf32: it holds their digits, and states rounded to bfloat16 would be wrong by three per cent.
    """
    in_full = dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    precision: Precision = "ieee" if in_full else "tf32"
    sizes = _smallest(CHUNKS, steps), _smallest(BLOCKS_K[precision], key_dim), _smallest(BLOCKS_V, value_dim)
    return _configuration(sizes, precision, "hip" if torch.version.hip else "cuda")


def _configuration(sizes: tuple[int, int, int], precision: Precision, backend: str) -> Configuration:
    """NVIDIA's tensor cores multiply float32 in three parts or not at all; AMD's multiply it as it is.

    Without tensor cores operands wait in registers: more threads have more of them.
    """
    if backend == "hip":
        return Configuration(*sizes, precision, exact="ieee", warps=4)
    if precision == "ieee":
        return Configuration(*sizes, precision, exact="ieee", warps=8)
    return Configuration(*sizes, precision, exact="tf32x3", warps=4)


def every(backend: str) -> Iterator[Configuration]:
    """All that `choose` can give for one maker of GPUs, 'cuda' or 'hip', the largest first."""
    precisions: tuple[Precision, ...] = ("tf32", "ieee")
    for precision in precisions:
        for sizes in product(CHUNKS[::-1], BLOCKS_K[precision][::-1], BLOCKS_V[::-1]):
            yield _configuration(sizes, precision, backend)


def _smallest(sizes: tuple[int, ...], needed: int) -> int:
    return next((size for size in sizes if size >= needed), sizes[-1])
