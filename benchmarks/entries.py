"""A competitor at work on one case: its calls, and whether its results agree with the oracle."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from benchmarks.competitors import Competitor
from benchmarks.problems import Case, Inputs, Problem, upstream
from benchmarks.timing import Times

TOLERANCE = 1e-5
"""Largest error of a single-precision result, relative to the largest magnitude of what is expected."""


@dataclass(frozen=True)
class Entry:
    """Inputs in the competitor's layout, ready to be timed."""

    competitor: Competitor
    run: Callable[..., Tensor]
    inputs: Inputs
    gradient: Tensor

    @classmethod
    def of(cls, competitor: Competitor, case: Case) -> "Entry":
        inputs = tuple(competitor.layout(x).requires_grad_() for x in competitor.problem.draw(case))
        scale = competitor.read_scale(inputs[1].shape[-1])
        return cls(competitor, competitor.load(), inputs, competitor.layout(upstream(case)) * scale)

    def forward(self) -> Times:
        """One call without gradients."""
        with torch.no_grad():
            start = perf_counter()
            self.run(*self.inputs)
            return {"forward": perf_counter() - start}

    def train(self) -> Times:
        """One call and the gradients of all its inputs."""
        start = perf_counter()
        reads = self.run(*self.inputs)
        middle = perf_counter()
        torch.autograd.grad(reads, self.inputs, self.gradient)
        end = perf_counter()
        return {"training": end - start, "backward": end - middle}

    def results(self, case: Case) -> list[Tensor]:
        """Reads without gradients, reads with them, and the gradients, of the sequences that the oracle samples."""
        scale = self.competitor.read_scale(self.inputs[1].shape[-1])
        with torch.no_grad():
            inferred = self.run(*self.inputs) * scale
        reads = self.run(*self.inputs)
        gradients = torch.autograd.grad(reads, self.inputs, self.gradient)
        whole = (inferred, reads.detach() * scale, *gradients)
        return [self.competitor.problem.sample(self.competitor.layout(x), case) for x in whole]


def expected_results(problem: Problem, case: Case) -> list[Tensor]:
    """The same for the sampled sequences, by the definition, in float64."""
    inputs = [problem.sample(x, case).double().requires_grad_() for x in problem.draw(case)]
    # Many small steps: a second thread would only be waited for.
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    reads = problem.define(*inputs)
    reads.backward(problem.sample(upstream(case), case).double())
    torch.set_num_threads(threads)
    return [reads.detach(), reads.detach(), *(x.grad for x in inputs if x.grad is not None)]


def error(results: list[Tensor], expected: list[Tensor]) -> float:
    """The largest relative error; infinite if anything is not a number."""
    errors = [
        (got.double() - wanted).abs().amax() / wanted.abs().amax()
        for got, wanted in zip(results, expected, strict=True)
    ]
    return torch.stack(errors).nan_to_num(nan=torch.inf, posinf=torch.inf).max().item()
