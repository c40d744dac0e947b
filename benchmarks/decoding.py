"""One step at a time without gradients, as in generation: the operator against the same step in eager PyTorch."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import cycle
from time import perf_counter
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from benchmarks.competitors import missing_backend
from benchmarks.entries import TOLERANCE
from benchmarks.gemm import race_with_yardstick
from benchmarks.operators import readable
from benchmarks.problems import Case, define_memory, draw_memory
from benchmarks.record import SpeedRecord
from benchmarks.table import Table, best, microseconds, ratio
from benchmarks.timing import Json, Times
from fastweights import fast_weight_scan

BURST = 64
"""Steps timed together: one alone is too short for the clock."""
EARLIER_STEPS = (0, 1024, 16384)
CACHES = (128, 1024, 16384)


class Step(NamedTuple):
    """What one step gets, b h 1 ·."""

    query: Tensor
    key: Tensor
    value: Tensor
    strength: Tensor


StepFunction = Callable[[Tensor, Step], tuple[Tensor, Tensor]]


def eager_step(weights: Tensor, step: Step) -> tuple[Tensor, Tensor]:
    """Retrieve, correct, write, read: the fewest and fastest PyTorch calls we know for it."""
    query, key, value, strength = step
    retrieved = torch.matmul(key, weights.mT)
    correction = strength[..., None] * (value - retrieved)
    weights = torch.addcmul(weights, correction.mT, key)
    return torch.matmul(query, weights.mT), weights


def einsum_step(weights: Tensor, step: Step) -> tuple[Tensor, Tensor]:
    """The same as the equations are written."""
    query, key, value, strength = step
    retrieved = torch.einsum("bhvk,bhtk->bhtv", weights, key)
    correction = strength[..., None] * (value - retrieved)
    weights = weights + torch.einsum("bhtv,bhtk->bhvk", correction, key)
    return torch.einsum("bhvk,bhtk->bhtv", weights, query), weights


def operator_step(weights: Tensor, step: Step, backend: str) -> tuple[Tensor, Tensor]:
    """The operator on a sequence of one."""
    return fast_weight_scan(step.query, step.key, step.value, step.strength, step.strength, weights, backend=backend)


STEP_FUNCTIONS: dict[str, StepFunction] = {
    "native": partial(operator_step, backend="native"),
    "eager": eager_step,
    "eager einsum": einsum_step,
    "recurrent": partial(operator_step, backend="recurrent"),
}


@dataclass(frozen=True)
class DecodingMeasurement:
    """Seconds per step, Python call included."""

    threads: int = 2
    seconds: float = 0.5
    case: Case = Case(1, 8, 256, 64, 64)  # noqa: RUF009  a frozen value

    name = "decoding"
    expected_seconds = 15.0

    def run(self) -> Json:
        """Times per step by form, after how many steps, and of attention over a cache of some length."""
        torch.set_num_threads(self.threads)
        missing = {"native": reason} if (reason := missing_backend("native")) is not None else {}
        with torch.no_grad():
            inputs = draw_memory(self.case)
            steps = [Step(*(x[:, :, t : t + 1] for x in inputs)) for t in range(self.case.steps)]
            expected = define_memory(*(x.double() for x in inputs))
            functions = {name: f for name, f in STEP_FUNCTIONS.items() if name not in missing}
            errors = {name: step_error(f, self.empty(), steps, expected) for name, f in functions.items()}
            agreed = {name: f for name, f in functions.items() if errors[name] <= TOLERANCE}
            calls = {f"{name} step": burst(f, self.empty(), steps) for name, f in agreed.items()}
            for earlier in EARLIER_STEPS if "native" in agreed else ():
                weights = advance(agreed["native"], self.empty(), cycle(steps), earlier)
                calls[f"native after {earlier}"] = burst(agreed["native"], weights, steps)
            calls |= {f"sdpa cache {length}": attention_burst(self.case, length) for length in CACHES}
            times, yardstick = race_with_yardstick(calls, self.seconds)
        return {
            "threads": self.threads,
            **yardstick,
            "missing": missing,
            "errors": {name: readable(value) for name, value in errors.items()},
            "refused": [name for name in functions if name not in agreed],
            "times": times,
        }

    def empty(self) -> Tensor:
        """W_0."""
        return torch.zeros(self.case.batch, self.case.heads, self.case.value_dim, self.case.key_dim)


def step_error(function: StepFunction, weights: Tensor, steps: list[Step], expected: Tensor) -> float:
    """Largest error of the reads of a sequence fed step by step, relative to the largest read."""
    reads = []
    for step in steps:
        read, weights = function(weights, step)
        reads.append(read)
    difference = torch.cat(reads, dim=2).double() - expected
    return (difference.abs().amax() / expected.abs().amax()).nan_to_num(nan=torch.inf).item()


def advance(function: StepFunction, weights: Tensor, steps: Iterator[Step], count: int) -> Tensor:
    """The weights after so many steps."""
    for _ in range(count):
        weights = function(weights, next(steps))[1]
    return weights


def burst(function: StepFunction, weights: Tensor, steps: list[Step]) -> Callable[[], Times]:
    """Seconds per step over a burst of steps that carry the weights on."""
    carried, following = [weights], cycle(steps)

    def timed() -> Times:
        start = perf_counter()
        carried[0] = advance(function, carried[0], following, BURST)
        return {"step": (perf_counter() - start) / BURST}

    return timed


def attention_burst(case: Case, length: int) -> Callable[[], Times]:
    """Seconds per step of softmax attention over a cache that is already there."""
    keys, values = (torch.randn(case.batch, case.heads, length, case.value_dim) for _ in range(2))
    query = torch.randn(case.batch, case.heads, 1, case.value_dim)

    def timed() -> Times:
        start = perf_counter()
        for _ in range(BURST):
            scaled_dot_product_attention(query, keys, values)
        return {"step": (perf_counter() - start) / BURST}

    return timed


def table(record: SpeedRecord) -> Table:
    """Single steps, and the native step against each."""
    rows = []
    for measured in (m for name, m in record.measurements.items() if name == "decoding"):
        native = best(measured["times"], "native step", "step")
        for name in measured["times"]:
            seconds = best(measured["times"], name, "step")
            rows.append((name, microseconds(seconds), ratio(seconds, native)))
    return Table("One step, b = 1, h = 8, k = v = 64, no gradients", ("step", "µs", "native is faster by"), rows)
