"""What it costs to map and normalise queries and keys, against the scan that they are mapped for."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.entries import TOLERANCE
from benchmarks.gemm import race_with_yardstick
from benchmarks.layer_parts import Part
from benchmarks.operators import readable
from benchmarks.record import SpeedRecord
from benchmarks.table import Table, best, milliseconds, percent, share_of
from benchmarks.timing import Json, Times
from fastweights import DPFP, SumNormalisation, fast_weight_scan
from fastweights.layers.feature_projection import FeatureProjection

BATCH, HEADS, STEPS, DIM = 4, 8, 1024, 64
NUS = (1, 2, 3)


def define(x: Tensor, nu: int) -> Tensor:
    """φ(x) / Σ_j φ(x)_j with φ(x) = [r ⊙ roll(r, 1), ..., r ⊙ roll(r, ν)], r = relu([x, -x])."""
    r = torch.cat([x, -x], dim=-1).relu()
    features = torch.cat([r * r.roll(shift, dims=-1) for shift in range(1, nu + 1)], dim=-1)
    return features / features.sum(dim=-1, keepdim=True)


def map_error(mapping: FeatureProjection, x: Tensor, nu: int) -> float:
    """Largest error of features and gradients, relative to the largest of what is expected."""
    results = []
    for function, at in ((lambda y: mapping(y)[0], x), (lambda y: define(y, nu), x.double())):
        inputs = at.detach().requires_grad_()
        features = function(inputs)
        direction = torch.linspace(-1, 1, features.shape[-1], dtype=at.dtype).expand_as(features)
        results.append((features.detach(), *torch.autograd.grad(features, inputs, direction)))
    errors = [(a.double() - b).abs().amax() / b.abs().amax() for a, b in zip(*results, strict=True)]
    return torch.stack(errors).nan_to_num(nan=torch.inf).max().item()


@dataclass(frozen=True)
class FeatureMapMeasurement:
    """Seconds by map, for both queries and keys, and of the scan over their features."""

    threads: int = 2
    seconds: float = 0.3

    name = "feature maps"
    expected_seconds = 12.0

    def run(self) -> Json:
        """Times of maps that agree with their definition in float64, and of their scans."""
        torch.set_num_threads(self.threads)
        generator = torch.Generator().manual_seed(0)
        queries, keys, values = (torch.randn(BATCH, HEADS, STEPS, DIM, generator=generator) for _ in range(3))
        strengths = torch.rand(BATCH, HEADS, STEPS, generator=generator)
        calls: dict[str, Callable[[], Times]] = {}
        errors = {}
        for nu in NUS:
            mapping = FeatureProjection(DIM, DPFP(nu), SumNormalisation())
            errors[f"DPFP-{nu}"] = map_error(mapping, queries[:1, :, :16], nu)
            if errors[f"DPFP-{nu}"] <= TOLERANCE:
                mapped = tuple(mapping(x)[0] for x in (queries, keys))
                calls[f"DPFP-{nu}: map"] = Part(map_both(mapping), (queries, keys)).timed()
                calls[f"DPFP-{nu}: scan"] = Part(scan, (*mapped, values, strengths)).timed()
        times, yardstick = race_with_yardstick(calls, self.seconds)
        return {
            "threads": self.threads,
            **yardstick,
            "missing": {},
            "errors": {name: readable(value) for name, value in errors.items()},
            "refused": [name for name, value in errors.items() if value > TOLERANCE],
            "times": times,
        }


def map_both(mapping: FeatureProjection) -> Callable[..., tuple[Tensor, ...]]:
    """The map of queries and of keys."""
    return lambda queries, keys: (mapping(queries)[0], mapping(keys)[0])


def scan(queries: Tensor, keys: Tensor, values: Tensor, strengths: Tensor) -> tuple[Tensor, ...]:
    """The reads of the delta rule."""
    return fast_weight_scan(queries, keys, values, strengths, strengths)[:1]


def table(record: SpeedRecord) -> Table:
    """Mapping queries and keys, and how it compares with the scan."""
    rows = []
    for measured in (m for name, m in record.measurements.items() if name == "feature maps"):
        times = measured["times"]
        for name in dict.fromkeys(key.partition(":")[0] for key in times):
            cells = []
            for what in ("forward", "training"):
                mapping, scan = best(times, f"{name}: map", what), best(times, f"{name}: scan", what)
                cells += [milliseconds(mapping), milliseconds(scan), percent(share_of(mapping, scan))]
            rows.append((name, *cells))
    parts = [f"{what} {part}" for what in ("forward", "training") for part in ("map ms", "scan ms", "map of scan")]
    title = "Mapping and normalising queries and keys, and the scan over them, b = 4, h = 8, t = 1024, d = v = 64"
    return Table(title, ("map", *parts), rows)
