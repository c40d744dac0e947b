"""The operator on what layers hand over (views of b t h ·) and on contiguous tensors, with decay or without."""

from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch
from torch import Tensor

from benchmarks.decays import Call, Drawn, draw, error, forward, native, train
from benchmarks.entries import TOLERANCE
from benchmarks.gemm import race_with_yardstick
from benchmarks.operators import readable
from benchmarks.problems import Case, upstream
from benchmarks.record import SpeedRecord
from benchmarks.table import Table, best, milliseconds, pair, percent, share, share_of
from benchmarks.timing import Json, Times

KINDS = ("layer", "contiguous", "layer, decay per head", "contiguous, decay per head")


@dataclass(frozen=True)
class LayoutMeasurement:
    """Times of one case in both layouts."""

    case: Case
    threads: int = 2
    seconds: float = 0.4

    @property
    def name(self) -> str:
        return f"layout {self.case.name}"

    expected_seconds = 12.0

    def run(self) -> Json:
        """Times of those that agree with the definition."""
        torch.set_num_threads(self.threads)
        gradient = upstream(self.case)
        problems = {kind: problem(self.case, kind) for kind in KINDS}
        errors = {kind: error(call, inputs, kind, gradient) for kind, (call, inputs) in problems.items()}
        calls: dict[str, Callable[[], Times]] = {}
        for kind, (call, inputs) in problems.items():
            if errors[kind] <= TOLERANCE:
                from_above = as_in_a_layer(gradient) if kind.startswith("layer") else gradient
                calls[f"{kind} forward"] = forward(call, inputs)
                calls[f"{kind} train"] = train(call, inputs, from_above)
        results, yardstick = race_with_yardstick(calls, self.seconds)
        agreed = [kind for kind in KINDS if f"{kind} forward" in calls]
        return {
            "case": asdict(self.case),
            "threads": self.threads,
            "missing": {},
            "errors": {kind: readable(value) for kind, value in errors.items()},
            "refused": [kind for kind in KINDS if kind not in agreed],
            **yardstick,
            "times": {kind: {**results[f"{kind} forward"], **results[f"{kind} train"]} for kind in agreed},
        }


def problem(case: Case, kind: str) -> tuple[Call, Drawn]:
    """The operator and its inputs in this layout."""
    call, _ = native(case, "none")
    inputs = draw(case, kind)
    if kind.startswith("layer"):
        inputs = {name: as_in_a_layer(x.detach()).requires_grad_() for name, x in inputs.items()}
    return call, inputs


def as_in_a_layer(x: Tensor) -> Tensor:
    """The same numbers laid out b t h ·, as the projection of a layer leaves them, and seen as b h t ·."""
    return x.transpose(1, 2).contiguous().transpose(1, 2)


def table(record: SpeedRecord) -> Table:
    """The operator in the layout of layers, with and without decay, against contiguous tensors without."""
    rows = []
    for measured in record.kind("layout"):
        case, times = Case(**measured["case"]), measured["times"]
        for kind in (kind for kind in KINDS if kind in times):
            forward, backward = (best(times, kind, what) for what in ("forward", "backward"))
            plain = [best(times, "contiguous", what) for what in ("forward", "backward")]
            rows.append(
                (
                    case.name,
                    kind,
                    pair(milliseconds(forward), milliseconds(backward)),
                    percent(share(case.forward_flop, forward, measured["gemm"])),
                    percent(share(case.backward_flop, backward, measured["gemm"])),
                    pair(percent(share_of(forward, plain[0])), percent(share_of(backward, plain[1]))),
                )
            )
    columns = ("sizes", "layout", "forward / backward ms", "forward of GEMM", "backward of GEMM", "of contiguous")
    return Table("The operator on what layers hand over (views of b t h ·)", columns, rows)
