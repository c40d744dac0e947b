"""What a decay and lookups cost: the native operator with each of them, and transformers' Kimi Delta Attention."""

import importlib.util
from collections.abc import Callable
from dataclasses import asdict, dataclass
from time import perf_counter

import torch
from torch import Tensor

from benchmarks.entries import TOLERANCE
from benchmarks.gemm import race_with_yardstick
from benchmarks.operators import readable
from benchmarks.problems import Case, draw_memory, upstream
from benchmarks.record import SpeedRecord
from benchmarks.table import Table, best, milliseconds, ratio
from benchmarks.timing import Json, Times
from fastweights import fast_weight_scan

KINDS = ("no decay", "per head", "per channel", "per head, lookups", "per channel, lookups")
PEER = "transformers, per channel"


@dataclass(frozen=True)
class DecayMeasurement:
    """Every kind of decay on one case, with the same keys, values and strengths."""

    case: Case
    threads: int = 2
    seconds: float = 0.6

    @property
    def name(self) -> str:
        return f"decay {self.case.name} threads{self.threads}"

    @property
    def expected_seconds(self) -> float:
        """A guess, for the time left."""
        return 40 + 12 * self.seconds

    def run(self) -> Json:
        """Times of those whose reads and gradients agree with the step loop on the first head."""
        torch.set_num_threads(self.threads)
        calls, missing = {kind: native(self.case, kind) for kind in KINDS}, {}
        if importlib.util.find_spec("transformers.models.kimi_linear") is None:
            missing[PEER] = "transformers has no Kimi Delta Attention here"
        else:
            calls[PEER] = peer(self.case)
        gradient = upstream(self.case)
        errors = {kind: error(call, inputs, kind, gradient) for kind, (call, inputs) in calls.items()}
        timed: dict[str, Callable[[], Times]] = {}
        for kind, (call, inputs) in calls.items():
            if errors[kind] <= TOLERANCE:
                timed[f"{kind} forward"] = forward(call, inputs)
                timed[f"{kind} train"] = train(call, inputs, gradient)
        results, yardstick = race_with_yardstick(timed, self.seconds)
        agreed = [kind for kind in calls if f"{kind} forward" in timed]
        return {
            "case": asdict(self.case),
            "threads": self.threads,
            "missing": missing,
            "errors": {kind: readable(value) for kind, value in errors.items()},
            "refused": [kind for kind in calls if kind not in agreed],
            **yardstick,
            "times": {kind: {**results[f"{kind} forward"], **results[f"{kind} train"]} for kind in agreed},
        }


Call = Callable[..., Tensor]
Drawn = dict[str, Tensor]


def draw(case: Case, kind: str) -> Drawn:
    """The arguments of the operator."""
    queries, keys, values, strengths = draw_memory(case)
    generator = torch.Generator().manual_seed(2)
    inputs = {"queries": queries, "keys": keys, "values": values, "erase": strengths, "write": strengths.clone()}
    channels = 1 - 0.3 * torch.rand(keys.shape, generator=generator)
    if "per head" in kind:
        inputs["decay"] = channels[..., 0].contiguous()
    if "per channel" in kind:
        inputs["decay"] = channels
    if "lookups" in kind:
        inputs["lookups"] = keys * torch.rand(keys.shape, generator=generator)
    return {name: x.requires_grad_() for name, x in inputs.items()}


def native(case: Case, kind: str) -> tuple[Call, Drawn]:
    """This project's kernel."""

    def call(**inputs: Tensor) -> Tensor:
        return fast_weight_scan(**inputs, backend="native")[0]

    return call, draw(case, kind)


def peer(case: Case) -> tuple[Call, Drawn]:
    """transformers' chunked Kimi Delta Attention in PyTorch: layout b t h ·, logarithms of decays, queries over √k."""
    from transformers.models.kimi_linear.modeling_kimi_linear import chunk_kimi_delta_attention
    from transformers.utils import logging

    logging.set_verbosity_error()

    def call(queries: Tensor, keys: Tensor, values: Tensor, erase: Tensor, write: Tensor, decay: Tensor) -> Tensor:
        q, k, v, b, g = (x.transpose(1, 2) for x in (queries * keys.shape[-1] ** 0.5, keys, values, write, decay.log()))
        reads: Tensor = chunk_kimi_delta_attention(q, k, v, g=g, beta=b, use_qk_l2norm_in_kernel=False)[0]
        return reads.transpose(1, 2)

    return call, draw(case, "per channel")


def error(call: Call, inputs: Drawn, kind: str, gradient: Tensor) -> float:
    """The largest error of reads and gradients on the first head, relative to the largest magnitude expected."""
    head = {name: x[:1, :1].detach().requires_grad_() for name, x in inputs.items()}
    exact = {name: x.detach().double().requires_grad_() for name, x in head.items()}
    reads, expected = call(**head), fast_weight_scan(**exact, backend="recurrent")[0]
    # Theirs has one strength, whose gradient is that of both of ours; it is left out.
    asked = [name for name in inputs if kind != PEER or name not in ("erase", "write")]
    found = torch.autograd.grad(reads, [head[name] for name in asked], gradient[:1, :1])
    wanted = torch.autograd.grad(expected, [exact[name] for name in asked], gradient[:1, :1].double())
    pairs = [(reads.detach(), expected.detach()), *zip(found, wanted, strict=True)]
    return max(float((x - y).abs().max() / y.abs().max()) for x, y in pairs)


def forward(call: Call, inputs: Drawn) -> Callable[[], Times]:
    """One call without gradients."""

    def timed() -> Times:
        with torch.no_grad():
            start = perf_counter()
            call(**inputs)
            return {"forward": perf_counter() - start}

    return timed


def train(call: Call, inputs: Drawn, gradient: Tensor) -> Callable[[], Times]:
    """One call and the gradients of all its inputs."""

    def timed() -> Times:
        start = perf_counter()
        reads = call(**inputs)
        middle = perf_counter()
        torch.autograd.grad(reads, list(inputs.values()), gradient, allow_unused=True)
        end = perf_counter()
        return {"training": end - start, "backward": end - middle}

    return timed


def table(record: SpeedRecord) -> Table:
    """What a decay and lookups cost beside one decay per head, and beside transformers' Kimi Delta Attention."""
    rows = []
    for measured in record.kind("decay"):
        size = Case(**measured["case"]).name
        for who in measured["times"]:
            cells = [
                (best(measured["times"], who, what), best(measured["times"], "per head", what))
                for what in ("forward", "backward", "training")
            ]
            rows.append(
                (size, who, *(milliseconds(time) for time, _ in cells), *(ratio(*cell, digits=2) for cell in cells))
            )
    columns = ("b, h, t, k, v", "decay", "forward ms", "backward ms", "both ms", "of per head", "backward", "both")
    return Table("Decay and lookups", columns, rows)
