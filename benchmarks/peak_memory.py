"""How much memory a call needs on top of its inputs: the peak of the resident set, in a process of its own."""

import resource
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.competitors import COMPETITORS
from benchmarks.entries import Entry
from benchmarks.problems import Case
from benchmarks.record import SpeedRecord
from benchmarks.table import NOTHING, Table
from benchmarks.timing import Json

STATUS, CLEAR = Path("/proc/self/status"), Path("/proc/self/clear_refs")


@dataclass(frozen=True)
class MemoryMeasurement:
    """Bytes that one competitor adds at the peak of a forward pass, or of a forward and a backward pass."""

    case: Case
    competitor: str
    training: bool

    @property
    def name(self) -> str:
        return f"memory {'training' if self.training else 'forward'} {self.competitor} {self.case.name}"

    @property
    def expected_seconds(self) -> float:
        """A guess, for the time left."""
        return 5 + (4e-8 * self.case.steps**2 if self.competitor == "sdpa" else 0.0)

    def run(self) -> Json:
        """One call after a small one that loads everything."""
        competitor = COMPETITORS[self.competitor]
        head = {"case": asdict(self.case), "competitor": self.competitor, "training": self.training}
        if (reason := competitor.missing()) is not None:
            return {**head, "missing": {self.competitor: reason}, "errors": {}, "refused": []}
        small = Entry.of(competitor, Case(1, 2, 128, self.case.key_dim, self.case.value_dim))
        small.forward(), small.train()
        entry = Entry.of(competitor, self.case)
        forget_peak()
        before = resident("VmRSS")
        entry.train() if self.training else entry.forward()
        return {**head, "missing": {}, "errors": {}, "refused": [], "bytes": max(0, resident("VmHWM") - before)}


def forget_peak() -> None:
    """Let the peak count from here, where the system can."""
    if CLEAR.exists():
        CLEAR.write_text("5", encoding="ascii")


def resident(field: str) -> int:
    """Bytes of memory in use now (VmRSS) or at the peak (VmHWM); without /proc the peak stands for both."""
    if STATUS.exists():
        for line in STATUS.read_text(encoding="ascii").splitlines():
            if line.startswith(f"{field}:"):
                return 1024 * int(line.split()[1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def table(record: SpeedRecord) -> Table:
    """Peak memory on top of the inputs, a row per case and pass, a column per competitor."""
    found: dict[tuple[str, str], dict[str, str]] = {}
    for measured in record.kind("memory"):
        case = Case(**measured["case"])
        row = (f"{case.batch}, {case.heads}, {case.steps}", "training" if measured["training"] else "forward")
        cell = f"{measured['bytes'] / 2**20:.0f}" if "bytes" in measured else NOTHING
        found.setdefault(row, {})[measured["competitor"]] = cell
    rows = [(*row, *(cells.get(name, NOTHING) for name in COMPETITORS)) for row, cells in found.items()]
    return Table("Peak memory beyond the inputs in MiB, k = v = 64", ("b, h, t", "pass", *COMPETITORS), rows)
