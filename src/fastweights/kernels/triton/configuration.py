"""How large the blocks of a launch are, and in which precision it multiplies: everything that `auto` can choose."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Literal

import torch

Precision = Literal["ieee", "tf32", "tf32x3"]
"""Of products of float32 numbers: in full, by tensor cores that see ten binary digits, or by these in three parts."""

CHUNK = 32
"""Steps per chunk. Chunks of 64 steps need more registers than a thread has; fewer steps save nothing but filling."""
BLOCKS_K: dict[str, tuple[int, ...]] = {"ieee": (32,), "tf32": (32, 64)}
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
    """Of the inverse of a chunk and of sums over its steps, whose terms cancel (docs/gpu.md#precision)."""
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


def choose(dtype: torch.dtype, key_dim: int, value_dim: int) -> Configuration:
    """The configuration of a scan with keys and values of these sizes.

    Products of float32 numbers are as exact as torch's (`torch.set_float32_matmul_precision`). Those of bfloat16 and
    float16 go through tf32: it holds their digits, and states rounded to bfloat16 would be wrong by three per cent.
    """
    in_full = dtype == torch.float32 and torch.get_float32_matmul_precision() == "highest"
    precision: Precision = "ieee" if in_full else "tf32"
    blocks = _smallest(BLOCKS_K[precision], key_dim), _smallest(BLOCKS_V, value_dim)
    return _configuration(blocks, precision, "hip" if torch.version.hip else "cuda")


def _configuration(blocks: tuple[int, int], precision: Precision, backend: str) -> Configuration:
    """NVIDIA's tensor cores multiply float32 in three parts or not at all; AMD's multiply it as it is.

    Without tensor cores operands wait in registers: more threads have more of them.
    """
    if backend == "hip":
        return Configuration(CHUNK, *blocks, precision, exact="ieee", warps=4)
    if precision == "ieee":
        return Configuration(CHUNK, *blocks, precision, exact="ieee", warps=8)
    return Configuration(CHUNK, *blocks, precision, exact="tf32x3", warps=4)


def every(backend: str) -> Iterator[Configuration]:
    """All that `choose` can give for one maker of GPUs, 'cuda' or 'hip', the largest first."""
    precisions: tuple[Precision, ...] = ("tf32", "ieee")
    for precision in precisions:
        for blocks in product(BLOCKS_K[precision][::-1], BLOCKS_V[::-1]):
            yield _configuration(blocks, precision, backend)


def _smallest(sizes: tuple[int, ...], needed: int) -> int:
    return next((size for size in sizes if size >= needed), sizes[-1])
