"""Records: one small JSON file for each finished run. Tables, figures and verdicts come from records alone.

RESULTS/runs/NAME/            a run at work: see directory.py
RESULTS/records/NAME.json     the finished run: config, result, environment and the curve in columns

A results folder of version 0.1 kept language models in RESULTS/language-models/; those are read as well.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from fastweights.files import Json, read_json, write_whole
from fastweights.runs.directory import RunDirectory

FORMATS = (1, 2)
"""Format 2 has configurations as `Run` writes them; format 1 has those of version 0.1."""
LONGEST_CURVE = 200
"""Lines kept of a curve, of training steps and of evaluations each; a longer one is thinned evenly."""
OLD_FOLDER = "language-models"


@dataclass(frozen=True)
class Record:
    """One finished run: what it was, how it ended, its learning curve by columns, where it ran."""

    config: Json
    result: Json
    curve: dict[str, list[float | None]]
    environment: Json

    def to_json(self) -> str:
        """One field to a line: small, and a change shows as a change."""
        fields = {
            "format": FORMATS[-1],
            "config": self.config,
            "result": self.result,
            "environment": self.environment,
            "curve": self.curve,
        }
        lines = (f'"{name}": {json.dumps(value, allow_nan=False)}' for name, value in fields.items())
        return "{" + ",\n ".join(lines) + "}\n"


def read_record(path: Path) -> Record:
    """Read a record; a ValueError names a file that is anything else than a whole record."""
    try:
        fields = read_json(path)
    except ValueError as error:
        raise ValueError(f"{error}; delete it to run it again") from error
    if fields.get("format") not in FORMATS:
        raise ValueError(f"{path}: not a record of format {FORMATS[-1]}, its format is {fields.get('format')!r}")
    parts: list[Any] = [fields.get(name) for name in ("config", "result", "curve", "environment")]
    if not all(isinstance(part, dict) for part in parts):
        raise ValueError(f"{path}: corrupted record, config, result, curve and environment should be objects")
    config, result, curve, environment = parts
    columns = list(curve.values())
    if not all(isinstance(column, list) and all(map(is_number, column)) for column in columns):
        raise ValueError(f"{path}: corrupted record, 'curve' should hold columns of numbers")
    if len({len(column) for column in columns}) > 1:
        raise ValueError(f"{path}: corrupted record, the columns of 'curve' differ in length")
    for name in ("best_loss", "last_loss", "steps"):
        if not is_number(result.get(name, "missing")):
            raise ValueError(f"{path}: corrupted record, 'result' has no number {name!r}")
    return Record(config, result, curve, environment)


def read_records(results: Path) -> dict[Path, Record]:
    """Every record of a results folder by its file, in the order of their names; none if there is no such folder."""
    check_results_folder(results)
    folders = (results / "records", results / OLD_FOLDER / "records")
    return {path: read_record(path) for folder in folders for path in sorted(folder.glob("*.json"))}


def write_record(results: Path, name: str, record: Record) -> Path:
    """Write the record of the run of this name and return its place."""
    path = record_path(results, name)
    write_whole(path, record.to_json())
    return path


def receive_record(results: Path, name: str, text: str) -> Record:
    """Write a record whose text came from another machine, once it has proved to be one."""
    with TemporaryDirectory() as folder:
        arrived = Path(folder) / f"{name}.json"
        arrived.write_text(text, encoding="utf-8")
        record = read_record(arrived)
    write_record(results, name, record)
    return record


def record_path(results: Path, name: str) -> Path:
    """Where the record of the run of this name belongs."""
    return results / "records" / f"{name}.json"


def run_folder(results: Path, name: str) -> Path:
    """Where the run of this name works."""
    return results / "runs" / name


def record_of(directory: RunDirectory, measured: Json) -> Record:
    """The record of a finished run, gathered from the files in its directory and what was measured afterwards."""
    metrics = thinned([line for line in directory.lines() if "skipped" not in line])
    names = list(dict.fromkeys(name for row in metrics for name in row))
    result: Json = rounded((directory.result or {}) | measured)
    return Record(
        config=directory.config,
        result=result,
        curve={name: [rounded(row.get(name)) for row in metrics] for name in names},
        environment=read_json(directory.path / "environment.json"),
    )


def thinned(metrics: list[Json]) -> list[Json]:
    """At most about LONGEST_CURVE rows of training steps and as many of evaluations, first and last among them.

    Evaluations are few and far between: thinned with the steps, they would go.
    """
    steps = [row for row in metrics if "learning_rate" in row]
    evaluations = [row for row in metrics if "learning_rate" not in row]
    kept = {id(row) for rows in (steps, evaluations) for row in (*rows[:: _stride(rows)], *rows[-1:])}
    return [row for row in metrics if id(row) in kept]


def _stride(rows: list[Json]) -> int:
    return math.ceil(len(rows) / LONGEST_CURVE) or 1


def rounded(value: Any) -> Any:
    """Six significant digits are more than a loss over 20 sequences can mean; not-a-number becomes null."""
    if isinstance(value, Mapping):
        return {name: rounded(part) for name, part in value.items()}
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    return value


def is_number(value: object) -> bool:
    """A number, or null for one that was not finite."""
    return value is None or (isinstance(value, int | float) and not isinstance(value, bool))


def check_results_folder(results: Path) -> None:
    """Refuse a results folder that cannot be one."""
    for folder in (results, results / "records", results / "runs"):
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"results folder: {folder} is a file, a folder is needed")
