"""Traces equal a step loop in float64, for every rule, map, normalisation, backend, mask, packing and split."""

from collections.abc import Callable
from dataclasses import dataclass

import pytest
import torch
from torch import Tensor
from trace_oracle import expected_trace, relative_difference

from combinations import CHOICES, Combination
from fastweights import FastWeightAttention
from fastweights.memory import QUANTITIES, Observation, record
from pairwise import pairs_first

pytestmark = pytest.mark.usefixtures("one_thread")

STEPS = 7
FORMS = ("whole", "masked", "packed", "in two", "masked in two", "step by step")
TOLERANCE = {torch.float64: 1e-12, torch.float32: 1e-5}


@dataclass(frozen=True)
class Case:
    combination: Combination
    form: str
    dtype: torch.dtype
    backend: str

    def __str__(self) -> str:
        return f"{self.combination}-{self.form}-{self.dtype}-{self.backend}"

    @property
    def options(self) -> tuple[object, ...]:
        return *self.combination.options, self.form, self.dtype, self.backend


def _cases() -> list[Case]:
    made = []
    for number, combination in enumerate(CHOICES):
        dtype = (torch.float64, torch.float32)[number // 2 % 2]
        backends = combination.backends(dtype)
        made.append(Case(combination, FORMS[number % len(FORMS)], dtype, backends[number // 3 % len(backends)]))
    return made


def calls(form: str, x: Tensor) -> list[tuple[Tensor, Tensor | None, Tensor | None]]:
    """Inputs, mask and boundaries of every call."""
    generator = torch.Generator().manual_seed(3)
    mask = torch.rand(x.shape[:2], generator=generator) > 0.3
    boundaries = torch.zeros(x.shape[:2], dtype=torch.bool)
    boundaries[0, 0] = boundaries[1, 4] = boundaries[1, 5] = True
    if form == "masked":
        return [(x, mask, None)]
    if form == "packed":
        return [(x, None, boundaries)]
    cuts = {"in two": [5, STEPS - 5], "masked in two": [4, STEPS - 4], "step by step": [1] * STEPS}.get(form, [STEPS])
    masks = mask.split(cuts, dim=1) if "masked" in form else [None] * len(cuts)
    return [(part, real, None) for part, real in zip(x.split(cuts, dim=1), masks, strict=True)]


def traced(
    layer: FastWeightAttention, given: list[tuple[Tensor, Tensor | None, Tensor | None]]
) -> tuple[dict[str, Tensor], list[Observation]]:
    """What `record` saw, and what it was shown."""
    shown: list[Observation] = []

    def both(observer: Callable[[Observation], None]) -> Callable[[Observation], None]:
        return lambda observation: (shown.append(observation), observer(observation))[1]

    with record(layer) as seen:
        layer.observer = both(layer.observer)
        state = None
        for part in given:
            _, state = layer(part[0], state, *part[1:])
    return {name: seen[""][name] for name in QUANTITIES}, shown


@pytest.mark.parametrize("case", pairs_first(_cases(), lambda case: case.options), ids=str)
def test_equals_a_step_loop(case: Case) -> None:
    layer = case.combination.layer(backend=case.backend).to(case.dtype)
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(2, STEPS, 8, generator=generator, dtype=torch.float64).to(case.dtype)
    actual, shown = traced(layer, calls(case.form, x))
    expected = expected_trace(shown)
    assert actual.keys() == expected.keys() == QUANTITIES.keys()
    # A write that lands misses by rounding errors alone, and centred features sum to no more than these.
    least = {"miss": 1.0, "balance": 1.0}
    errors = {name: relative_difference(actual[name], expected[name], least.get(name, 0.0)) for name in QUANTITIES}
    assert max(errors.values()) <= TOLERANCE[case.dtype], errors
