"""Records: what remains of a finished run, one small JSON file each. Tables, figures and verdicts come from these.

RESULTS/runs/NAME/            a run at work: config.json, environment.json, metrics.jsonl, checkpoint, result.json
RESULTS/records/NAME.json     the same run when it is done: config, result, environment and the curve in columns
"""

import json
import math
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Json = dict[str, Any]

FORMAT = 1
LARGEST_RECORD = 4_000_000
"""Bytes; nothing that this package writes comes near."""
LONGEST_CURVE = 200
"""Evaluations kept of a curve; a longer one is thinned evenly."""


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
            "format": FORMAT,
            "config": self.config,
            "result": self.result,
            "environment": self.environment,
            "curve": self.curve,
        }
        lines = (f'"{name}": {json.dumps(value, allow_nan=False)}' for name, value in fields.items())
        return "{" + ",\n ".join(lines) + "}\n"


def read_record(path: Path) -> Record:
    """The record in a file; anything else than a whole record is refused by naming the file."""
    fields = read_json(path)
    if fields.get("format") != FORMAT:
        raise ValueError(f"{path}: not a record of format {FORMAT}, its format is {fields.get('format')!r}")
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
    return {path: read_record(path) for path in sorted((results / "records").glob("*.json"))}


def record_path(results: Path, name: str) -> Path:
    """Where the record of the run of this name belongs."""
    return results / "records" / f"{name}.json"


def run_directory(results: Path, name: str) -> Path:
    """Where the run of this name works."""
    return results / "runs" / name


def record_of_directory(directory: Path) -> Record:
    """The record of a finished run, gathered from the files in its directory."""
    lines = (directory / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    metrics = thinned([json.loads(line) for line in lines])
    names = list(dict.fromkeys(name for row in metrics for name in row))
    return Record(
        config=read_json(directory / "config.json"),
        result=rounded(read_json(directory / "result.json")),
        curve={name: [rounded(row.get(name)) for row in metrics] for name in names},
        environment=read_json(directory / "environment.json"),
    )


def thinned(metrics: list[Json]) -> list[Json]:
    """At most about LONGEST_CURVE rows, the first and the last among them."""
    stride = math.ceil(len(metrics) / LONGEST_CURVE) or 1
    kept = metrics[::stride]
    return kept if not metrics or kept[-1] is metrics[-1] else [*kept, metrics[-1]]


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


def read_json(path: Path) -> Json:
    """One JSON object from a file of bounded size."""
    try:
        if path.stat().st_size > LARGEST_RECORD:
            raise ValueError(f"{path}: larger than {LARGEST_RECORD} bytes, that is no record")
        value = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ValueError(
            f"{path}: corrupted, not valid JSON ({type(error).__name__}); delete it to run it again"
        ) from error
    if not isinstance(value, dict):
        raise ValueError(f"{path}: corrupted, should hold an object; delete it to run it again")
    return value


def write_text(path: Path, text: str) -> None:
    """Write a whole file or nothing: a reader or a crash never sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    with temporary.open("w", encoding="utf-8", newline="\n") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def check_results_folder(results: Path) -> None:
    """Refuse a results folder that cannot be one."""
    for folder in (results, results / "records", results / "runs"):
        if folder.exists() and not folder.is_dir():
            raise ValueError(f"results folder: {folder} is a file, a folder is needed")


@contextmanager
def exclusive(directory: Path) -> Iterator[bool]:
    """Whether this process now owns the directory; the system ends ownership with the process, however that ends."""
    import fcntl  # not on every system, and only runs need it

    directory.mkdir(parents=True, exist_ok=True)
    with (directory / ".lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
        else:
            yield True
