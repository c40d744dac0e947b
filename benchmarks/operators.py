"""The operator and its peers on one case: checked against the oracle, then timed in turns."""

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass

import torch

from benchmarks.competitors import COMPETITORS
from benchmarks.entries import TOLERANCE, Entry, error, expected_results
from benchmarks.gemm import race_with_yardstick
from benchmarks.problems import Case
from benchmarks.record import SpeedRecord
from benchmarks.table import Table, best, milliseconds, pair, percent, ratio, share
from benchmarks.timing import Json, Times


@dataclass(frozen=True)
class OperatorMeasurement:
    """Every competitor on one case; each of their calls gets `seconds`."""

    case: Case
    threads: int = 2
    seconds: float = 0.4
    competitors: tuple[str, ...] = tuple(COMPETITORS)

    @property
    def name(self) -> str:
        return f"operator {self.case.name} threads{self.threads}"

    @property
    def expected_seconds(self) -> float:
        """A guess, for the time left."""
        quadratic = 1.2e-7 * self.case.steps**2 if "sdpa" in self.competitors else 0.0
        return 6 + 6e-4 * self.case.steps + (2 * len(self.competitors) + 1) * self.seconds + quadratic

    def run(self) -> Json:
        """Times of those whose results agree with the oracle, and why the others have none."""
        torch.set_num_threads(self.threads)
        chosen = {name: COMPETITORS[name] for name in self.competitors}
        missing = {name: reason for name, c in chosen.items() if (reason := c.missing()) is not None}
        entries = {name: Entry.of(c, self.case) for name, c in chosen.items() if name not in missing}
        errors = check(entries, self.case)
        agreed = {name: entry for name, entry in entries.items() if errors[name] <= TOLERANCE}
        return {
            "case": asdict(self.case),
            "threads": self.threads,
            "missing": missing,
            "errors": {name: readable(value) for name, value in errors.items()},
            "refused": [name for name in entries if name not in agreed],
            **time(agreed, self.seconds),
        }


def check(entries: dict[str, Entry], case: Case) -> dict[str, float]:
    """How far the results of each are from the definition; this also warms everything up."""
    errors = {}
    for problem in {entry.competitor.problem for entry in entries.values()}:
        expected = expected_results(problem, case)
        for name, entry in entries.items():
            if entry.competitor.problem == problem:
                errors[name] = error(entry.results(case), expected)
    return errors


def time(entries: dict[str, Entry], seconds: float) -> Json:
    """The times of all, and the yardstick in FLOP/s."""
    calls: dict[str, Callable[[], Times]] = {}
    for name, entry in entries.items():
        calls[f"{name} forward"], calls[f"{name} train"] = entry.forward, entry.train
    results, yardstick = race_with_yardstick(calls, seconds)
    return {
        **yardstick,
        "times": {name: {**results[f"{name} forward"], **results[f"{name} train"]} for name in entries},
    }


def readable(value: float) -> float | None:
    """Two digits, and null for what JSON has no word for."""
    return float(f"{value:.2g}") if math.isfinite(value) else None


def operator_row(measured: Json) -> tuple[str, ...]:
    """Sizes, native times, their speed beside that of a matrix product, and the other competitors as multiples."""
    case, times = Case(**measured["case"]), measured["times"]
    forward, training, backward = (best(times, "native", what) for what in ("forward", "training", "backward"))
    others = [
        pair(ratio(best(times, name, "forward"), forward), ratio(best(times, name, "training"), training))
        for name in COMPETITORS
        if name != "native"
    ]
    return (
        f"{case.batch}, {case.heads}, {case.steps}, {case.key_dim}, {case.value_dim}",
        str(measured["threads"]),
        f"{measured['gemm'] / 1e9:.0f}",
        pair(milliseconds(forward), milliseconds(training)),
        percent(share(case.forward_flop, forward, measured["gemm"])),
        percent(share(case.backward_flop, backward, measured["gemm"])),
        *others,
    )


COLUMNS = (
    "b, h, t, k, v",
    "threads",
    "GEMM GFLOP/s",
    "native ms",
    "forward of GEMM",
    "backward of GEMM",
    "faster than chunked",
    "than transformers",
    "than SDPA",
)


def table(record: SpeedRecord) -> Table:
    """Everything about the operator."""
    rows = [operator_row(measured) for measured in record.kind("operator")]
    return Table("The operator: forward / forward + backward", COLUMNS, rows)


def headline(record: SpeedRecord) -> Table:
    """The operator at t = 1024 on two threads."""
    chosen = [m for m in record.kind("operator") if m["threads"] == 2 and m["case"]["steps"] == 1024]
    columns = tuple(name for name in COLUMNS if name not in ("threads", "GEMM GFLOP/s"))
    rows = [(row[0], *row[3:]) for row in map(operator_row, chosen)]
    return Table("Forward / forward + backward", columns, rows)
