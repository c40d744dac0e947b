"""Everything that records say about the paper's experiments, as one report and as parts of other files."""

from collections.abc import Callable, Iterable
from importlib import import_module
from pathlib import Path

from fastweights.experiments import EXPERIMENTS, shown_modules
from fastweights.experiments.families import codec, shown_module
from fastweights.experiments.ledger import answers, disagreements, later_work, ledger, review
from fastweights.experiments.records import Records, coverage_of
from fastweights.experiments.trials import COLUMNS, trial_rows
from fastweights.files import write_whole
from fastweights.reporting import Drawing, Report, Section, Table, fill_markers
from fastweights.runs.display import duration, number
from fastweights.runs.record import Record


def paper_report(records: Records) -> Report:
    """Figures and tables of the paper, its claims, where it disagrees with itself, and other runs if there are any."""
    sections = [section(name, records) for name in shown_modules()]
    for title, text, makers in OTHER_SECTIONS:
        sections.append(Section(title, (text,) if text else (), tables=tuple(make(records) for make in makers)))
    if others := other_runs(records):
        sections.append(Section("Other runs", tables=(others,)))
    return Report(
        "Linear Transformers as fast-weight memories: the paper's figures and tables",
        (
            "A memory of fixed size is written with pairs of keys and values and asked for one of them. "
            "The first task asks how many pairs it holds apart, the second whether it can replace a value "
            "by a newer one. Then such memories stand in for the attention of language models.",
            f"Made from {origins(records)}.",
        ),
        tuple(sections),
        "Made by `fastweights report` from records alone: no number on this page was typed by hand. The "
        "published runs are those that the authors of the paper put beside their code.",
    )


def section(name: str, records: Records) -> Section:
    """One figure or table of the paper."""
    module = shown_module(name)
    contents = module.contents(records)
    drawings = tuple(part for part in contents if isinstance(part, Drawing))
    return Section(module.TITLE, (module.TEXT,), drawings, tuple(part for part in contents if isinstance(part, Table)))


def trials(records: Records) -> Table:
    """Numbers of trials beside those of the records."""
    caption = (
        "Numbers of short trials with one seed beside means over our seeds and their standard deviation. The verdict "
        "compares the mean: as in the trial means within 5 points of right answers, 3 points of change, 2 % of a "
        "perplexity, a fifth of λ."
    )
    return Table("trials", caption, COLUMNS, trial_rows(records))


def origins(records: Records) -> str:
    """The records that the report is made from, in words."""
    counts = []
    for name, package in EXPERIMENTS.items():
        family = [record for run, record in records.items() if isinstance(run.task, codec().task_type(name))]
        if described := getattr(import_module(package), "RECORDS", None):
            solved = sum(record.result.get("stopped_because") == "solved" for record in family)
            counts.append(f"{len(family)} {described.format(solved=solved)}")
    return ", and from ".join(counts)


def commands_table(records: Records) -> Table:
    """For each figure and table its command, how many of its runs have a record, and the time they took."""
    rows = []
    for name in shown_modules():
        module = shown_module(name)
        found, wanted, quick = coverage_of(module, records)
        rows.append(
            (
                module.TITLE.partition(":")[0],
                f"`fastweights reproduce {name}{getattr(module, 'ARGUMENTS', '')}`",
                f"{len(found)} of {wanted}" if wanted else "nothing to train",
                duration(seconds(found)) if wanted else "–",
                f"{quick} runs" if quick else "–",
            )
        )
    columns = ("figure or table", "command", "runs with a record", "time on one core", "with `--quick`")
    return Table("commands", "Runs that two figures or tables share are done once.", columns, tuple(rows))


def seconds(records: Iterable[Record]) -> float:
    """How long the runs took together, as far as their records tell: on cores of their own, or by the clock."""
    times = (record.result.get("core_seconds") or record.result.get("seconds") for record in records)
    return sum(float(time) for time in times if isinstance(time, int | float))


def other_runs(records: Records) -> Table | None:
    """Runs that are in none of the paper's figures and tables."""
    shown = {id(record) for name in shown_modules() for record in coverage_of(shown_module(name), records).found}
    rows = tuple(
        (
            run.slug,
            number(record.result["best_loss"] if record.result["best_loss"] is not None else float("nan")),
            str(record.result["steps"]),
            str(record.result.get("stopped_because", "limit")),
            codec().name(run).rpartition("-")[2],
        )
        for run, record in sorted(records.items(), key=lambda entry: codec().name(entry[0]))
        if id(record) not in shown
    )
    return Table("other", "Runs of your own.", ("run", "best loss", "steps", "ended", "digest"), rows) if rows else None


OTHER_SECTIONS: tuple[tuple[str, str, tuple[Callable[[Records], Table], ...]], ...] = (
    ("Commands", "What makes each figure and table, and what it cost.", (commands_table,)),
    (
        "Claims of the paper",
        "One rule decides each claim, for the published runs and for ours alike. The verdict is on "
        "ours; where the paper's own runs say something else than its text, the fourth column "
        "shows it.",
        (ledger,),
    ),
    (
        "What a review asked, and what came out",
        "A review of the paper asked to see what the paper argues; so the memories were looked into.",
        (answers, review),
    ),
    ("What later work says", "Rules that came after the paper claim to do what the delta rule cannot.", (later_work,)),
    (
        "Trials, and what became of them",
        "Short trials with one seed came before these experiments. Which of their numbers hold?",
        (trials,),
    ),
    ("Where text and logs disagree", "", (lambda records: disagreements(),)),
)
"""What the report has beside figures and tables: title, text, and the functions that make its tables."""


def update_files(report: Report, files: Iterable[Path]) -> None:
    """Fill the marked places of Markdown files with the tables of the report."""
    tables = {table.name: table.markdown() for section in report.sections for table in section.tables}
    for path in files:
        write_whole(path, fill_markers(path.read_text(encoding="utf-8"), tables))
