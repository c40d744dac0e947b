"""What recording a layer's memory costs: a pass that reads, with and without it, beside the layer's backward pass."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import torch

from benchmarks.gemm import race_with_yardstick
from benchmarks.record import SpeedRecord
from benchmarks.stacks import ATTENTIONS, BATCH, MODEL_DIM, STEPS
from benchmarks.table import Table, best, milliseconds, percent, share_of
from benchmarks.timing import Json, Times
from fastweights import FastWeightAttention
from fastweights.memory import record as record_traces

LAYERS = ("delta, DPFP-1", "delta, DPFP-3", "delta, ELU+1")


def timed(layer: FastWeightAttention) -> Callable[[], Times]:
    """The backward pass of a training step, and the forward pass of inference with and without a recording."""
    x = torch.randn(BATCH, STEPS, MODEL_DIM, requires_grad=True)
    gradient = torch.randn_like(x)

    def call() -> Times:
        y, _ = layer(x)
        start = perf_counter()
        torch.autograd.grad(y, [x, *layer.parameters()], gradient)
        backward = perf_counter()
        with torch.inference_mode():
            layer(x)
            forward = perf_counter()
            with record_traces(layer):
                layer(x)
        end = perf_counter()
        return {"backward": backward - start, "forward": forward - backward, "recorded": end - forward}

    return call


@dataclass(frozen=True)
class TraceMeasurement:
    """Seconds by layer."""

    threads: int = 2
    seconds: float = 1.0

    name = "traces"
    expected_seconds = 10.0

    def run(self) -> Json:
        """Times of the layers; that traces are right is what the tests of the memory are for."""
        torch.set_num_threads(self.threads)
        calls: dict[str, Callable[[], Times]] = {}
        for name in LAYERS:
            layer = ATTENTIONS[name]("auto")
            assert isinstance(layer, FastWeightAttention)
            calls[name] = timed(layer)
        times, yardstick = race_with_yardstick(calls, self.seconds)
        return {"threads": self.threads, **yardstick, "missing": {}, "errors": {}, "refused": [], "times": times}


def table(record: SpeedRecord) -> Table:
    """What recording adds to a forward pass, as a share of the backward pass."""
    rows = []
    for measured in (m for name, m in record.measurements.items() if name == TraceMeasurement.name):
        for name in measured["times"]:
            forward, backward, recorded = (
                best(measured["times"], name, what) for what in ("forward", "backward", "recorded")
            )
            added = None if forward is None or recorded is None else recorded - forward
            cells = (milliseconds(seconds) for seconds in (forward, backward, added))
            rows.append((name, *cells, percent(share_of(added, backward))))
    columns = ("layer", "forward ms", "backward ms", "recording adds ms", "of a backward pass")
    return Table("Recording the memory of a layer", columns, rows)
