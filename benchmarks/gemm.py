"""The yardstick: the best single-precision matrix product that PyTorch reaches on this machine, in the same run."""

from collections.abc import Callable, Mapping
from functools import partial

import torch

from benchmarks.timing import Json, Times, race, stopwatch

SIZES = (512, 1024, 2048)


def products() -> dict[str, Callable[[], Times]]:
    """One call per size, for a race."""
    calls = {}
    for size in SIZES:
        a, b = torch.randn(size, size), torch.randn(size, size)
        calls[f"gemm {size}"] = stopwatch("product", partial(torch.mm, a, b, out=torch.empty(size, size)))
    return calls


def speeds(results: dict[str, Json]) -> Json:
    """FLOP/s from the results of a race: at best, which is the yardstick, and usually, which shows disturbances."""

    def largest(what: str) -> float:
        return max(2 * size**3 / results[f"gemm {size}"]["product"][what] for size in SIZES)

    return {"gemm": float(f"{largest('best'):.5g}"), "gemm_median": float(f"{largest('median'):.5g}")}


def race_with_yardstick(calls: Mapping[str, Callable[[], Times]], seconds: float) -> tuple[dict[str, Json], Json]:
    """The results of a race, and the speeds of matrix products that took part in it."""
    results = race({**products(), **calls}, seconds)
    return {name: results[name] for name in calls}, speeds(results)
