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
        """Measurements that were made again with another commit or processor than the record's, by these."""
        found: dict[str, list[str]] = {}
        for name, value in self.measurements.items():
            commit, processor = value.get("commit", self.commit), self.processor_of(name)
            other = "" if processor == self.environment.get("processor") else f" on {processor}"
            if commit != self.commit or other:
                found.setdefault(f"{commit}{other}", []).append(name)
        return found

    def processor_of(self, name: str) -> object:
        """What a measurement was made on."""
        return self.measurements[name].get("processor", self.environment.get("processor"))

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
        measured = {
            name: (value, (value["threads"], self.processor_of(name)))
            for name, value in self.measurements.items()
            if "gemm" in value
        }
        best: dict[object, float] = {}
        for value, where in measured.values():
            best[where] = max(best.get(where, 0.0), value["gemm"])
        return [name for name, (value, where) in measured.items() if value["gemm_median"] < UNDISTURBED * best[where]]
