"""Is the cost linear in t? One backend on sequences of growing length, all taking turns in one process."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from benchmarks.competitors import COMPETITORS
from benchmarks.entries import TOLERANCE, Entry
from benchmarks.gemm import race_with_yardstick
from benchmarks.operators import check, readable
from benchmarks.problems import Case
from benchmarks.record import SpeedRecord
from benchmarks.table import NOTHING, Table, best, microseconds
from benchmarks.timing import Json, Times

STEPS = (64, 256, 1024, 4096, 16384)


@dataclass(frozen=True)
class LengthMeasurement:
    """One competitor on the same case at every length."""

    threads: int = 2
    seconds: float = 0.4
    competitor: str = "native"
    case: Case = Case(1, 8, 0, 64, 64)  # noqa: RUF009  a frozen value
    steps: tuple[int, ...] = STEPS

    @property
    def name(self) -> str:
        return f"length {self.competitor} threads{self.threads}"

    @property
    def expected_seconds(self) -> float:
        """A guess, for the time left."""
        return 5 + 6e-4 * sum(self.steps) + 2 * self.seconds * len(self.steps)

    def run(self) -> Json:
        """Times by number of steps, of the lengths at which the results agree with the oracle."""
        torch.set_num_threads(self.threads)
        competitor = COMPETITORS[self.competitor]
        head = {"batch": self.case.batch, "heads": self.case.heads, "threads": self.threads}
        if (reason := competitor.missing()) is not None:
            return {**head, "missing": {self.competitor: reason}, "errors": {}, "refused": [], "times": {}}
        cases = {str(steps): replace(self.case, steps=steps) for steps in self.steps}
        entries = {steps: Entry.of(competitor, case) for steps, case in cases.items()}
        errors = {steps: check({steps: entry}, cases[steps])[steps] for steps, entry in entries.items()}
        agreed = [steps for steps in entries if errors[steps] <= TOLERANCE]
        calls: dict[str, Callable[[], Times]] = {}
        for steps in agreed:
            calls[f"{steps} forward"], calls[f"{steps} train"] = entries[steps].forward, entries[steps].train
        results, yardstick = race_with_yardstick(calls, self.seconds)
        return {
            **head,
            **yardstick,
            "missing": {},
            "errors": {steps: readable(value) for steps, value in errors.items()},
            "refused": [steps for steps in entries if steps not in agreed],
            "times": {steps: {**results[f"{steps} forward"], **results[f"{steps} train"]} for steps in agreed},
        }


def table(record: SpeedRecord) -> Table:
    """Time per token of the native backend, and how far from that of t = 1024."""
    rows = []
    for measured in record.kind("length"):
        for steps in measured["times"]:
            cells: list[str] = []
            for what in ("forward", "training"):
                here, reference = (per_token(measured, n, what) for n in (steps, "1024"))
                off = NOTHING if here is None or reference is None else f"{100 * (here / reference - 1):+.0f} %"
                cells += [microseconds(here), off]
            rows.append((steps, str(measured["threads"]), *cells))
    columns = ("t", "threads", "forward µs per token", "against 1024", "training µs per token", "against 1024")
    return Table("Cost per token by length, native, b = 1, h = 8, k = v = 64", columns, rows)


def per_token(measured: Json, steps: str, what: str) -> float | None:
    """Seconds per token of all sequences."""
    seconds = best(measured["times"], steps, what)
    return None if seconds is None else seconds / (int(steps) * measured["batch"])
