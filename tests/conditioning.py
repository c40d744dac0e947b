"""Which results of a drawn problem a bound can judge: those that hardly move when the inputs are rounded once more.

Whoever computes in float32 knows each input to one rounding, 2⁻²⁴ of its size, and rounds at every step besides. If the
definition itself, in float64, moves by r when every input moves by up to that much, then no order of operations can be
expected to come nearer to it than a few r: the plain loop of the definition in float32 does not either. A bound
therefore judges a result only if 4 r is within it. The criterion asks the definition alone, never what is under test:
a wrong kernel cannot excuse itself. Each result of a problem is asked by itself: one gradient that cancels excuses no
other. And tests/memory/test_agreement.py keeps what is set aside below a hundredth of all drawn results.
"""

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from random_problems import relative_error

Nudge = Callable[[Tensor], Tensor]
ROUNDINGS = 4
"""How many roundings of the inputs have to fit into a bound."""
WAYS = 4
"""In how many random ways the inputs are moved."""


def agrees(name: str, actual: Tensor, expected: Tensor, bound: float) -> bool:
    return relative_error(actual, expected) <= bound


def ill_conditioned(
    bounds: Mapping[str, float],
    exact: Callable[[Nudge], Mapping[str, Tensor]],
    agrees: Callable[[str, Tensor, Tensor, float], bool] = agrees,
) -> set[str]:
    """The results that their bounds cannot judge; `exact` takes every input through the function that it is given."""
    expected, *moved = (exact(nudge) for nudge in (Tensor.double, *map(_nudge, range(WAYS))))
    return {
        name
        for name, bound in bounds.items()
        if not all(agrees(name, results[name], expected[name], bound / ROUNDINGS) for results in moved)
    }


def _nudge(way: int) -> Nudge:
    generator = torch.Generator().manual_seed(way)

    def nudge(x: Tensor) -> Tensor:
        # One rounding to float32, or to the precision of the input where that is finer.
        size = min(torch.finfo(x.dtype).eps, torch.finfo(torch.float32).eps) / 2
        return x.double() * (1 + size * (2 * torch.rand(x.shape, generator=generator, dtype=torch.float64) - 1))

    return nudge
