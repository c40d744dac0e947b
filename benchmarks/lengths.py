"""Is the cost linear in t? One backend on sequences of growing length, all taking turns in one process."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch

from benchmarks.competitors import COMPETITORS
from benchmarks.entries import TOLERANCE, Entry
from benchmarks.gemm import race_with_yardstick
from benchmarks.operators import check, readable
from benchmarks.problems import Case
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
