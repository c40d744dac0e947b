"""What a training step and an evaluation of the synthetic experiments cost.

A step is everything: drawing the data, forward, backward and Adam. That the model computes what its plain form does is
tested in float64 in tests/experiments/retrieval.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch

from benchmarks.gemm import race_with_yardstick
from benchmarks.record import SpeedRecord
from benchmarks.table import Table, best, milliseconds, ratio
from benchmarks.timing import Json, Times, stopwatch
from fastweights.experiments.carry_out import SMALL_RUNS
from fastweights.experiments.retrieval.evaluation import PROTOCOLS, evaluate
from fastweights.experiments.retrieval.presets import preset
from fastweights.experiments.retrieval.task import RetrievalTask
from fastweights.runs.directory import RunDirectory
from fastweights.training.loop import Trainer


class SyntheticCase(NamedTuple):
    """A model, a rule and a number of keys."""

    setting: str
    model: str
    rule: str
    num_keys: int
    published: float | None = None
    """Milliseconds that a step of the published code takes on a machine of two cores."""

    @property
    def label(self) -> str:
        return f"{self.setting}, {self.model}, {self.rule}, {self.num_keys}"


CASES = (
    SyntheticCase("overwriting", "dpfp1", "delta", 20, 53),
    SyntheticCase("overwriting", "dpfp1", "delta", 100, 562),
    SyntheticCase("overwriting", "dpfp1", "delta", 200, 2824),
    SyntheticCase("overwriting", "elu", "delta", 200),
    SyntheticCase("overwriting", "dpfp1", "schlag2021", 100),
    SyntheticCase("overwriting", "tanh", "schlag2021", 20),
    SyntheticCase("capacity", "dpfp3", "sum", 300, 103),
    SyntheticCase("capacity", "dpfp3", "sum", 600, 366),
    SyntheticCase("capacity", "elu", "sum", 600),
    SyntheticCase("capacity", "softmax", "sum", 600),
    SyntheticCase("capacity", "favor128", "sum", 140),
)


@dataclass(frozen=True)
class SyntheticMeasurement:
    """Seconds per training step and per evaluation by each protocol."""

    threads: int = 2
    seconds: float = 0.4
    cases: tuple[SyntheticCase, ...] = CASES

    name = "synthetic"
    expected_seconds = 40.0

    def run(self) -> Json:
        """Times of all cases in turns."""
        torch.set_num_threads(self.threads)
        calls: dict[str, Callable[[], Times]] = {}
        for case in self.cases:
            run = preset(case.setting, case.model, case.rule, case.num_keys)  # type: ignore[arg-type]
            # Nothing but steps: no evaluation falls due, nothing is written.
            config = replace(run.training, evaluate_every=10**9, steps=10**9)
            task = RetrievalTask(run.task, config)  # type: ignore[arg-type]
            model = task.build()
            trainer = Trainer(task, model, config, RunDirectory(Path(), owner=False), policy=SMALL_RUNS)
            calls[f"{case.label}: step"] = stopwatch("step", trainer.train_step)
            for name, protocol in PROTOCOLS.items():
                size = config.batch_size
                scored = partial(evaluate, model, task.problem, protocol, chunk_size=size, seed=1, step=1)
                calls[f"{case.label}: {name}"] = stopwatch("evaluation", scored)
        times, yardstick = race_with_yardstick(calls, self.seconds)
        return {"threads": self.threads, **yardstick, "missing": {}, "errors": {}, "refused": [], "times": times}


def table(record: SpeedRecord) -> Table:
    """Steps and evaluations of the synthetic experiments."""
    rows = []
    for measured in (m for name, m in record.measurements.items() if name == "synthetic"):
        times = measured["times"]
        for case in CASES:
            step = best(times, f"{case.label}: step", "step")
            evaluations = [best(times, f"{case.label}: {name}", "evaluation") for name in PROTOCOLS]
            if step is not None:
                published = None if case.published is None else case.published / 1e3
                cells = (milliseconds(step), milliseconds(published), ratio(published, step))
                rows.append((case.label, *cells, *map(milliseconds, evaluations)))
    columns = (
        "setting, model, rule, S",
        "step ms",
        "published code's",
        "faster",
        *(f"evaluation ms, {name}" for name in PROTOCOLS),
    )
    return Table("The synthetic experiments, batch 32 (tanh: 128), 2 threads", columns, rows)
