"""`make bench`: measure everything, print the tables, write record and figure."""

import json
import shlex
import subprocess
import sys
from dataclasses import asdict, replace
from datetime import UTC, datetime
from fnmatch import fnmatch
from pathlib import Path
from time import perf_counter

import tyro

from benchmarks.plan import PLANS
from benchmarks.progress import Progress
from benchmarks.record import SpeedRecord
from benchmarks.report import draw, print_tables
from benchmarks.timing import Json
from fastweights import backends
from fastweights.runs.environment import Environment

ROOT = Path(__file__).parents[1]


def main(
    quick: bool = False,
    out: Path = Path("runs/bench"),
    only: str | None = None,
    launcher: str = "",
) -> None:
    """Speed and memory of the operator and its peers, as ratios in one run.

    Args:
        quick: the most telling figures in less than a minute, instead of all in twenty minutes.
        out: folder for the record (speed.json) and the figure (speed.png).
        only: measure what matches this pattern again, such as 'operator *t1024*', and keep the rest of the record.
        launcher: command put before that of every measuring process, such as 'taskset -c 0,1'.
    """
    plan = "quick" if quick else "full"
    path = out / "speed.json"
    record = SpeedRecord.read(path) if only is not None and path.exists() else new_record(plan)
    if record.plan != plan:
        raise SystemExit(f"error: {path} is of the {record.plan} plan, not of the {plan} one")
    chosen = {m.name: m.expected_seconds for m in PLANS[plan]() if only is None or fnmatch(m.name, only)}
    if not chosen:
        raise SystemExit(f"error: nothing matches {only!r}; there is {', '.join(m.name for m in PLANS[plan]())}")
    processor = Environment.here().processor
    with Progress(chosen) as progress:
        for name in chosen:
            progress.begin(name)
            start = perf_counter()
            result = measure(plan, name, launcher) | {"commit": head(), "processor": processor}
            record = replace(record, measurements=record.measurements | {name: result})
            record.write(path)
            progress.end(name, perf_counter() - start)
    print_tables(record)
    draw(record, out / "speed.png")
    print(f"record: {path}   figure: {out / 'speed.png'}")
    for name in record.disturbed:
        print(f"something else was running, measure again: --only {name!r}")
    if record.refusals:
        raise SystemExit("error: no speed for results that disagree with the oracle: " + "; ".join(record.refusals))


def new_record(plan: str) -> SpeedRecord:
    """Nothing measured yet."""
    date = datetime.now(UTC).strftime("%Y-%m-%d")
    environment = asdict(Environment.here())
    environment["backends"] = {name: status.reason or "available" for name, status in backends().items()}
    return SpeedRecord(plan, date, head(), environment, {})


def head() -> str:
    """The commit that is measured."""
    commit = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"], capture_output=True, text=True)
    return commit.stdout.strip() or "unknown"


def measure(plan: str, name: str, launcher: str) -> Json:
    """The result of one measurement, from a fresh process."""
    command = [*shlex.split(launcher), sys.executable, "-m", "benchmarks.measure", plan, name]
    finished = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if finished.returncode:
        raise SystemExit(f"error: {shlex.join(command)} ended with exit code {finished.returncode}")
    result: Json = json.loads(finished.stdout)
    return result


if __name__ == "__main__":
    tyro.cli(main, prog="python -m benchmarks")
