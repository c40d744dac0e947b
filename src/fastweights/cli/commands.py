"""What the verbs of the command line for the paper's experiments do."""

import os
import signal
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType

from fastweights.data.retrieval import Setting
from fastweights.experiments import FIGURES, language_model_records, paper_report
from fastweights.experiments.demo.tour import tour as paper_in_a_minute
from fastweights.cli.options import TableOptions
from fastweights.experiments.retrieval.execute import PROTOCOLS, RetrievalRun, preset
from fastweights.experiments.retrieval.config import CODEC
from fastweights.experiments.runs import carry_out, load, name_of
from fastweights.runs.sweep.local import sweep
from fastweights.experiments.language_models.tables import TABLES, train_tables
from fastweights.runs.display import Running, SweepProgress, ending
from fastweights.runs.record import Record, check_results_folder, record_path
from fastweights.reporting.terminal import print_table

STARTING_POINT = {"capacity": ("sum", 20), "overwriting": ("delta", 20)}
"""Rule and S of a run of which nothing else is said."""


def demo(out: Path) -> None:
    """From nothing to a report in about a minute."""
    end_on_termination()
    paper_in_a_minute.run(out, cores())


def run(setting: Setting, model: str, rule: str | None, changes: Sequence[str], results: Path | None) -> None:
    """Train one model, unless its record is there already, and say how it ended and where the record is."""
    results = results or default_results()
    check_results_folder(results)
    wanted = configured(setting, model, rule, changes)
    record = load(results).get(wanted) or train(wanted, results)
    print(f"{wanted.slug}: {ending(record.result)}")
    print(f"The record is {record_path(results, name_of(wanted))}")
    print(f"Try next: fastweights report --results {results}")


def train(wanted: RetrievalRun, results: Path) -> Record:
    """Carry out one run and show how it goes; Ctrl-C leaves a checkpoint, from which the same command goes on."""
    progress = SweepProgress(total=1, done=0, work=1.0)

    def show(step: int, loss: float, steps_per_second: float) -> None:
        progress.update(wanted.slug, step, loss, steps_per_second)
        progress.refresh()

    progress.start(wanted.slug, Running(wanted.slug))
    with progress.shown(), requests_to_stop() as requests:
        record = carry_out(wanted, results, on_progress=show, should_stop=lambda: bool(requests))
    if signal.SIGINT in requests:
        raise KeyboardInterrupt
    if requests:
        raise SystemExit(128 + requests[0])
    if record is None:
        raise ValueError(f"another process is working on {name_of(wanted)}")
    return record


@contextmanager
def requests_to_stop() -> Iterator[list[int]]:
    """The signals that asked for an end inside the block; a second one ends it at once."""
    received: list[int] = []

    def note(signum: int, frame: FrameType | None) -> None:
        received.append(signum)
        signal.signal(signum, signal.SIG_DFL)

    before = {signum: signal.signal(signum, note) for signum in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield received
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


def configured(setting: Setting, model: str, rule: str | None, changes: Sequence[str]) -> RetrievalRun:
    """The run that the options describe, starting from the paper's."""
    usual_rule, num_keys = STARTING_POINT[setting]
    described = preset(setting, model, rule or usual_rule, num_keys)
    for change in changes:
        path, equals, value = change.partition("=")
        if not equals:
            raise ValueError(f"--set: expected FIELD=VALUE, got {change!r}")
        if path == "protocol":
            if value not in PROTOCOLS:
                raise ValueError(f"protocol: must be one of {', '.join(PROTOCOLS)}, got {value!r}")
            described = replace(described, protocol=PROTOCOLS[value])
        else:
            described = CODEC.override(described, path, value)
    return described


def reproduce(
    what: Sequence[str],
    quick: bool,
    seeds: tuple[int, ...],
    results: Path | None,
    jobs: int | None,
    options: TableOptions,
) -> None:
    """Run what figures and tables need and have no record of, then make the report."""
    if not what:
        raise ValueError(f"figures: name at least one of {', '.join((*FIGURES, *TABLES))}")
    figures = [name for name in what if name in FIGURES]
    if not figures and (quick or seeds):
        raise ValueError("--quick and --seeds are for figures; tables have one seed and one length of training")
    results = results or default_results()
    check_results_folder(results)
    end_on_termination()
    runs: list[RetrievalRun] = []
    for name in figures:
        module = paper_report.figure_module(name)
        runs += module.runs(quick, seeds or module.SEEDS)
    title = " ".join(["fastweights reproduce", *figures, *(["--quick"] if quick else [])])
    sweep(runs, results, jobs=cores() if jobs is None else jobs, title=title)
    train_tables([name for name in what if name in TABLES], language_models(results), options)
    records, models = load(results), language_model_records.load(language_models(results))
    for section in (paper_report.section(name, records, models) for name in what):
        for table in section.tables:
            print_table(table.caption, table.columns, table.rows)
    print(f"The report is {paper_report.paper_report(records, models).save(Path('fastweights-report'))}")


def report(results: Path | None, out: Path, update: Sequence[Path], figures: Path | None) -> None:
    """Make the report, and fill in other files if asked to."""
    results = results or default_results()
    if out.exists() and not out.is_dir():
        raise ValueError(f"out: {out} is a file, a folder is needed")
    records, models = load(results), language_model_records.load(language_models(results))
    if not records and not models:
        raise ValueError(f"no records in {results}: run `fastweights reproduce figure2 --quick` first")
    made = paper_report.paper_report(records, models)
    print(f"The report is {made.save(out)}")
    paper_report.update_files(made, update)
    if figures is not None:
        paper_report.save_figures(made, figures)


def default_results() -> Path:
    """results/ in the repository of this package, where records are kept; a folder of one's own elsewhere."""
    project = Path("pyproject.toml")
    if project.is_file():
        with project.open("rb") as file:
            name = tomllib.load(file).get("project", {}).get("name")
        if name == "fastweights":
            return Path("results")
    return Path("fastweights-results")


def language_models(results: Path) -> Path:
    """The part of a results folder that belongs to the tables."""
    return results / "language-models"


def cores() -> int:
    """How many processes can run at the same time."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def end_on_termination() -> None:
    """A polite request to end (SIGTERM) leaves checkpoints as Ctrl-C does."""

    def end(signum: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + signum)

    signal.signal(signal.SIGTERM, end)
