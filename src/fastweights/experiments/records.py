"""Records by the runs that they record."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from fastweights.experiments.families import codec
from fastweights.experiments.options import ReproduceOptions
from fastweights.runs.record import Record, read_records
from fastweights.training.run import Run

Records = Mapping[Run, Record]


class Coverage(NamedTuple):
    """How much of a figure or table has records: those found, of how many, and the number of runs of its quick form."""

    found: Sequence[Record]
    wanted: int
    quick: int = 0


def coverage_of(module: Any, records: Records) -> Coverage:
    """The coverage of a figure or table: that of its runs, unless its module counts otherwise (`coverage`)."""
    if hasattr(module, "coverage"):
        own: Coverage = module.coverage(records)
        return own
    runs, quick = (module.runs(ReproduceOptions(quick=quick)) for quick in (False, True))
    return Coverage([records[run] for run in runs if run in records], len(runs), len(quick))


def load(results: Path) -> dict[Run, Record]:
    """The records of a results folder by the run that each one records."""
    records: dict[Run, Record] = {}
    for path, record in read_records(results).items():
        try:
            run = codec().from_plain(record.config)
            if not run.preset and not run.task.slug:
                # Version 0.1 kept the preset in the name of the file alone.
                run = replace(run, preset=path.stem.rpartition("-")[0])
            run.task.check_result(record.result)
        except ValueError as error:
            raise ValueError(f"{path}: corrupted record, {error}") from error
        # Of two records of one run the one with more measurements counts.
        if run not in records or len(record.result) > len(records[run].result):
            records[run] = record
    return records


def missing(runs: Iterable[Run], results: Path) -> list[Run]:
    """Those of the runs that have no record of what they measure yet, each once."""
    records = load(results)
    return [run for run in dict.fromkeys(runs) if run not in records or not run.task.is_measured(records[run].result)]
