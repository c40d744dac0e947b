"""Where the time goes inside one layer: projection, feature map with normalisation, scan, output."""

from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import torch
from torch import Tensor

from benchmarks.gemm import race_with_yardstick
from benchmarks.record import SpeedRecord
from benchmarks.stacks import ATTENTIONS, BATCH, HEADS, MODEL_DIM, STEPS
from benchmarks.table import Table, best, milliseconds, percent, share_of
from benchmarks.timing import Json, Times
from fastweights import FastWeightAttention, fast_weight_scan

LAYERS = ("delta, DPFP-1", "delta, DPFP-3", "delta, ELU+1")


@dataclass(frozen=True)
class Part:
    """A function of tensors, what it is given, and the parameters it uses."""

    function: Callable[..., tuple[Tensor, ...]]
    inputs: tuple[Tensor, ...]
    parameters: tuple[Tensor, ...] = ()

    def timed(self) -> Callable[[], Times]:
        """Its share of a training step: forward, and the gradients of inputs and parameters."""
        inputs = tuple(x.detach().requires_grad_() for x in self.inputs)
        gradients = [torch.randn_like(y) for y in self.function(*inputs)]

        def call() -> Times:
            start = perf_counter()
            outputs = self.function(*inputs)
            middle = perf_counter()
            torch.autograd.grad(outputs, [*inputs, *self.parameters], gradients)
            end = perf_counter()
            return {"forward": middle - start, "backward": end - middle, "training": end - start}

        return call


def parts_of(layer: FastWeightAttention) -> dict[str, Part]:
    """The whole layer and its parts, each given what the layer itself would hand on, strides included."""
    x = torch.randn(BATCH, STEPS, MODEL_DIM)
    dims = [HEADS * dim for dim in (layer.key_dim, layer.key_dim, layer.value_dim)]
    with torch.no_grad():
        pieces = layer.projection(x)[..., : sum(dims)].split(dims, dim=-1)
        queries, keys, values = (piece.unflatten(-1, (HEADS, -1)).transpose(1, 2) for piece in pieces)
        mapped = layer.mapping(queries)[0], layer.mapping(keys)[0]
        strengths = torch.rand(BATCH, HEADS, STEPS)

    def map_both(q: Tensor, k: Tensor) -> tuple[Tensor, ...]:
        return layer.mapping(q)[0], layer.mapping(k)[0]

    def scan(q: Tensor, k: Tensor, v: Tensor, strength: Tensor) -> tuple[Tensor, ...]:
        return fast_weight_scan(q, k, v, strength, strength, backend=layer.backend)[:1]

    return {
        "whole layer": Part(lambda x: (layer(x)[0],), (x,), tuple(layer.parameters())),
        "projection": Part(lambda x: (layer.projection(x),), (x,), (layer.projection.weight,)),
        "map and normalisation": Part(map_both, (queries, keys)),
        "scan": Part(scan, (*mapped, values, strengths)),
        "output": Part(lambda x: (layer.output(x),), (x,), (layer.output.weight,)),
    }


@dataclass(frozen=True)
class LayerMeasurement:
    """Seconds by layer and part. What the layer does between its parts shows as what they do not add up to."""

    threads: int = 2
    seconds: float = 0.5

    name = "layer parts"
    expected_seconds = 20.0

    def run(self) -> Json:
        """Times of the parts; that the layers are right is what the stacks are checked for."""
        torch.set_num_threads(self.threads)
        calls: dict[str, Callable[[], Times]] = {}
        for name in LAYERS:
            layer = ATTENTIONS[name]("auto")
            assert isinstance(layer, FastWeightAttention)
            calls |= {f"{name}: {part}": content.timed() for part, content in parts_of(layer).items()}
        times, yardstick = race_with_yardstick(calls, self.seconds)
        return {"threads": self.threads, **yardstick, "missing": {}, "errors": {}, "refused": [], "times": times}


def table(record: SpeedRecord) -> Table:
    """Where the time of a layer goes."""
    rows = []
    for measured in (m for name, m in record.measurements.items() if name == "layer parts"):
        for name in measured["times"]:
            whole = best(measured["times"], f"{name.partition(':')[0]}: whole layer", "training")
            forward, backward, training = (
                best(measured["times"], name, what) for what in ("forward", "backward", "training")
            )
            rows.append((name, milliseconds(forward), milliseconds(backward), percent(share_of(training, whole))))
    return Table("Inside one layer", ("part", "forward ms", "backward ms", "of the layer"), rows)
