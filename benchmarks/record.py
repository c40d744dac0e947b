"""The record of a run: one JSON file, from which alone tables and figures are made."""

import json
from dataclasses import dataclass
from pathlib import Path

from benchmarks.timing import Json
from fastweights.files import read_json, write_whole

FORMAT = 1
UNDISTURBED = 0.9
"""Share of the best yardstick of a run below which the usual one of a measurement means trouble."""


@dataclass(frozen=True)
class SpeedRecord:
    """What was measured by name of the measurement, by which plan, where, and when."""

    plan: str
    date: str
    commit: str
    environment: Json
    measurements: dict[str, Json]

    def write(self, path: Path) -> None:
        """One measurement to a line: a change shows as a change."""
        head = {
            "format": FORMAT,
            "plan": self.plan,
            "date": self.date,
            "commit": self.commit,
            "environment": self.environment,
        }
        lines = [f'"{name}": {json.dumps(value)}' for name, value in head.items()]
        lines += [f"{json.dumps(name)}: {json.dumps(value)}" for name, value in self.measurements.items()]
        body, rows = ",\n ".join(lines[: len(head)]), ",\n  ".join(lines[len(head) :])
        write_whole(path, "{" + body + ',\n "measurements": {\n  ' + rows + "}}\n")

    @classmethod
    def read(cls, path: Path) -> "SpeedRecord":
        """The record in a file; anything else is refused by naming the file."""
        fields = read_json(path)
        if fields.pop("format", None) != FORMAT or fields.keys() != cls.__dataclass_fields__.keys():
            raise ValueError(f"{path}: not a record of speed, format {FORMAT}; make one with `make bench`")
        return cls(**fields)

    def kind(self, prefix: str) -> list[Json]:
        """The measurements whose name starts so."""
        return [value for name, value in self.measurements.items() if name.startswith(f"{prefix} ")]

    @property
    def later(self) -> dict[str, list[str]]:
        """Measurements that were made again with another commit than the record's, by that commit."""
        found: dict[str, list[str]] = {}
        for name, value in self.measurements.items():
            if value.get("commit", self.commit) != self.commit:
                found.setdefault(value["commit"], []).append(name)
        return found

    @property
    def refusals(self) -> list[str]:
        """What disagreed with the oracle, by measurement."""
        return [
            f"{name}: {who} (error {value['errors'].get(who)})"
            for name, value in self.measurements.items()
            for who in value["refused"]
        ]

    @property
    def disturbed(self) -> list[str]:
        """Measurements whose yardstick was usually a good deal slower than the best: something else was running."""
        measured = {name: value for name, value in self.measurements.items() if "gemm" in value}
        best: dict[int, float] = {}
        for value in measured.values():
            best[value["threads"]] = max(best.get(value["threads"], 0.0), value["gemm"])
        return [name for name, value in measured.items() if value["gemm_median"] < UNDISTURBED * best[value["threads"]]]
