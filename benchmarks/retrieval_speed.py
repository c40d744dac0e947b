"""What a training step and an evaluation of the synthetic experiments cost: `python -m benchmarks.retrieval_speed`.

A step is everything: drawing the data, forward, backward and Adam. Beside it stand the cost of one evaluation by each
protocol, due every 100 steps, and the time that the published code takes for a step on another machine of this kind.
"""

import statistics
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from time import perf_counter
from typing import NamedTuple

import torch
import tyro
from rich.console import Console
from rich.table import Table

from fastweights.evaluation.retrieval import evaluate
from fastweights.experiments.retrieval import PROTOCOLS, preset
from fastweights.experiments.retrieval_training import Training


class Case(NamedTuple):
    """A model, a rule and a number of keys; the milliseconds the step should stay below, and the published code's."""

    setting: str
    model: str
    rule: str
    num_keys: int
    goal: float | None = None
    published: float | None = None


CASES = (
    Case("overwriting", "dpfp1", "delta", 20, 5, 53),
    Case("overwriting", "dpfp1", "delta", 100, 28, 562),
    Case("overwriting", "dpfp1", "delta", 200, 90, 2824),
    Case("overwriting", "dpfp2", "delta", 200),
    Case("overwriting", "elu", "delta", 200),
    Case("capacity", "dpfp3", "sum", 300, 20, 103),
    Case("capacity", "dpfp3", "sum", 600, 60, 366),
    Case("capacity", "dpfp1", "sum", 600),
    Case("capacity", "elu", "sum", 600),
    Case("capacity", "softmax", "sum", 600),
    Case("capacity", "favor128", "sum", 140),
    Case("overwriting", "tanh", "schlag2021", 20, 40),
    Case("overwriting", "tanh", "schlag2021", 40),
    Case("overwriting", "dpfp1", "schlag2021", 100),
)


def main(threads: tuple[int, ...] = (1, 2), seconds: float = 1.0, only: str = "") -> None:
    """Milliseconds per training step and evaluation of the synthetic experiments.

    Args:
        threads: numbers of torch threads to measure with; sweeps run one process per core with one thread each.
        seconds: how long to repeat each step.
        only: measure only cases whose name contains this, such as 'delta'.
    """
    table = Table(title="ms per training step, data included, and per evaluation")
    for column in ("setting", "model", "rule", "S", "batch", "threads", "step", "median", "goal", "published code"):
        table.add_column(column, justify="left" if column in ("setting", "model", "rule") else "right")
    for name in PROTOCOLS:
        table.add_column(f"evaluation ({name})", justify="right")
    yardstick = {}
    for count in threads:
        torch.set_num_threads(count)
        yardstick[count] = gemm_speed()
        for case in CASES:
            if only in " ".join((case.setting, case.model, case.rule)):
                table.add_row(*row(case, count, seconds))
    Console(width=150).print(table)
    for count, speed in yardstick.items():
        print(f"512 × 512 single-precision GEMM with {count} thread(s): {speed:.0f} GFLOP/s")


def row(case: Case, threads: int, seconds: float) -> list[str]:
    """One line of the table."""
    run = preset(case.setting, case.model, case.rule, case.num_keys)  # type: ignore[arg-type]
    training = Training(replace(run, evaluate_every=10**9, max_steps=10**9))
    steps = repeat(training.advance, seconds)
    evaluations = [
        repeat(
            partial(evaluate, training.model, training.task, protocol, chunk_size=run.batch_size, seed=1, step=1),
            seconds / 4,
        )
        for protocol in PROTOCOLS.values()
    ]
    return [
        *(case.setting, case.model, case.rule, str(case.num_keys), str(run.batch_size), str(threads)),
        f"{min(steps):.2f}",
        f"{statistics.median(steps):.2f}",
        *("" if limit is None else f"{limit:g}" for limit in (case.goal, case.published)),
        *(f"{min(times):.1f}" for times in evaluations),
    ]


def repeat(call: Callable[[], object], seconds: float) -> list[float]:
    """Milliseconds of each of several calls, after one that warms up."""
    call()
    times: list[float] = []
    start = perf_counter()
    while len(times) < 3 or perf_counter() - start < seconds:
        before = perf_counter()
        call()
        times.append(1e3 * (perf_counter() - before))
    return times


def gemm_speed(size: int = 512) -> float:
    """GFLOP/s of a product of square matrices."""
    a, b, out = (torch.randn(size, size) for _ in range(3))
    return 2 * size**3 / min(repeat(partial(torch.mm, a, b, out=out), 0.3)) / 1e6


if __name__ == "__main__":
    tyro.cli(main)
