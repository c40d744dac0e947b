"""What is there for speed alone, with and without: single steps, buffer pool, groups of sequences, oneDNN."""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass

import torch

from benchmarks.competitors import missing_backend
from benchmarks.gemm import race_with_yardstick
from benchmarks.language_models import make, text, training_step
from benchmarks.record import SpeedRecord
from benchmarks.table import Table, best, milliseconds, ratio
from benchmarks.timing import Json, Times, stopwatch
from fastweights import DPFP, FastWeightAttention, fast_weight_scan
from fastweights.kernels.features import fused_features
from fastweights.kernels.native import buffer_pool
from fastweights.kernels.products import mkl_falls_short, onednn_products
from fastweights.layers.attention import relative
from fastweights.memory.choose import SHORTCUTS

BURST = 64
"""Steps timed together: one alone is too short for the clock."""


@contextmanager
def without_step() -> Iterator[None]:
    """Single steps go the general way."""
    taken = dict(SHORTCUTS)
    SHORTCUTS.clear()
    try:
        yield
    finally:
        SHORTCUTS.update(taken)


@contextmanager
def without_pool() -> Iterator[None]:
    """Large outputs come from torch's allocator."""
    before, buffer_pool.LARGE = buffer_pool.LARGE, 1 << 62
    try:
        yield
    finally:
        buffer_pool.LARGE = before


@contextmanager
def without_groups() -> Iterator[None]:
    """All sequences of a batch attend at once in Transformer-XL."""
    before, relative.GROUP_BYTES = relative.GROUP_BYTES, 1 << 62
    try:
        yield
    finally:
        relative.GROUP_BYTES = before


@dataclass(frozen=True)
class ShortcutMeasurement:
    """Seconds of the same call with and without each shortcut."""

    threads: int = 2
    seconds: float = 0.5
    long: int = 16384

    name = "shortcuts"
    expected_seconds = 20.0

    def run(self) -> Json:
        """Times by what is called."""
        torch.set_num_threads(self.threads)
        head: Json = {"threads": self.threads, "missing": {}, "errors": {}, "refused": [], "times": {}}
        if (reason := missing_backend("native")) is not None:
            return {**head, "missing": {"native": reason}}
        calls: dict[str, Callable[[], Times]] = {}
        for name, call in self.steps().items():
            calls |= both(name, call, without_step)
        for name, call in self.sequences().items():
            calls |= both(name, call, without_pool)
        calls |= both("training, attention of Transformer-XL", self.relative_attention(), without_groups)
        if mkl_falls_short():
            step = training_step(make("delta, ELU+1"), text(16, 256))
            calls["a training step of cpu-linear-delta without"] = stopwatch("call", step)
            calls["a training step of cpu-linear-delta with"] = by_onednn(step)
        times, yardstick = race_with_yardstick(calls, self.seconds)
        return {**head, **yardstick, "times": times}

    def steps(self) -> dict[str, Callable[[], object]]:
        """Single steps of the operator and of a layer, without gradients."""
        keys, beta = torch.nn.functional.normalize(torch.randn(1, 8, 1, 64), dim=-1), torch.rand(1, 8, 1)
        weights = torch.randn(1, 8, 64, 64)
        layer, x = FastWeightAttention(128, 8).eval(), torch.randn(1, 1, 128)
        state = layer(x)[1].detach()

        def operator() -> None:
            with torch.no_grad():
                for _ in range(BURST):
                    fast_weight_scan(keys, keys, keys, beta, beta, weights)

        def whole_layer() -> None:
            with torch.no_grad():
                for _ in range(BURST):
                    layer(x, state)

        return {f"{BURST} steps of the operator": operator, f"{BURST} steps of a layer": whole_layer}

    def sequences(self) -> dict[str, Callable[[], object]]:
        """A long sequence through the operator, forward and training, and through a feature map."""
        shape = (1, 8, self.long)
        keys = torch.nn.functional.normalize(torch.randn(*shape, 64), dim=-1).requires_grad_()
        beta, gradient = torch.rand(*shape).requires_grad_(), torch.randn(*shape, 64)

        def forward() -> None:
            with torch.no_grad():
                fast_weight_scan(keys, keys, keys, beta, beta)

        def training() -> None:
            reads, _ = fast_weight_scan(keys, keys, keys, beta, beta)
            torch.autograd.grad(reads, (keys, beta), gradient)

        def features() -> None:
            with torch.no_grad():
                fused_features(DPFP(nu=2).kernel(64), "sum", keys)

        return {f"forward, t = {self.long}": forward, f"training, t = {self.long}": training, "DPFP-2": features}

    def relative_attention(self) -> Callable[[], object]:
        """A layer of cpu-transformer-xl, forward and backward, with a whole segment in its memory."""
        layer, x = relative.RelativeAttention(128, 8, memory_length=256), torch.randn(16, 256, 128)
        state, gradient = layer(x)[1].detach(), torch.randn(16, 256, 128)
        return lambda: torch.autograd.grad(layer(x, state)[0], list(layer.parameters()), gradient)


def both(
    name: str, call: Callable[[], object], without: Callable[[], AbstractContextManager[None]]
) -> dict[str, Callable[[], Times]]:
    """The call timed with everything, and without one shortcut."""
    timed = stopwatch("call", call)

    def slower() -> Times:
        with without():
            return timed()

    return {f"{name} with": timed, f"{name} without": slower}


def by_onednn(call: Callable[[], object]) -> Callable[[], Times]:
    """The call timed with oneDNN's matrix products, as in a run, where MKL's fall short."""
    timed = stopwatch("call", call)

    def replaced() -> Times:
        with onednn_products():
            return timed()

    return replaced


def table(record: SpeedRecord) -> Table:
    """What each of the shortcuts is worth."""
    rows = []
    for measured in (m for name, m in record.measurements.items() if name == "shortcuts"):
        times = measured["times"]
        for name in (who.removesuffix(" with") for who in times if who.endswith(" with")):
            taken, without = (best(times, f"{name} {how}", "call") for how in ("with", "without"))
            rows.append((name, milliseconds(taken), milliseconds(without), ratio(without, taken)))
    return Table("Shortcuts", ("call", "with, ms", "without, ms", "gain"), rows)
