"""The yardstick: the best single-precision matrix product that PyTorch reaches on this machine, in the same run."""

from collections.abc import Callable
from functools import partial

import torch

from benchmarks.timing import Json, Times, stopwatch

SIZES = (512, 1024, 2048)


def products() -> dict[str, Callable[[], Times]]:
    """One call per size, for a race."""
    calls = {}
    for size in SIZES:
        a, b = torch.randn(size, size), torch.randn(size, size)
        calls[f"gemm {size}"] = stopwatch("product", partial(torch.mm, a, b, out=torch.empty(size, size)))
    return calls


def peak(results: dict[str, Json]) -> float:
    """FLOP/s of the best size in the results of a race."""
    speeds = [2 * size**3 / results[f"gemm {size}"]["product"]["best"] for size in SIZES]
    return float(f"{max(speeds):.5g}")
