"""Everything that records say about the paper's experiments, as one report and as parts of other files."""

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType

from fastweights.experiments import FIGURES, tables
from fastweights.experiments.language_models.records import LanguageModelRecords, perplexities, preset_of
from fastweights.experiments.runs import Records, names_in_figures, outcomes
from fastweights.reporting.claim import number
from fastweights.experiments.ledger import disagreements, ledger
from fastweights.runs.display import duration
from fastweights.runs.record import Record, write_text
from fastweights.reporting.report import Report, Section, Table, fill_markers


def figure_module(name: str) -> ModuleType:
    """The module of a figure, which offers `runs()` and `report()`."""
    if name not in FIGURES:
        raise ValueError(f"figure: there is no {name!r}; possible: {', '.join(FIGURES)}")
    return import_module(f"fastweights.experiments.{name}")


def section(name: str, records: Records, models: LanguageModelRecords) -> Section:
    """A figure or a table of the paper, from records."""
    if name in tables.TABLES:
        return tables.report(name, models)
    made: Section = figure_module(name).report(records)
    return made


def paper_report(records: Records, models: LanguageModelRecords) -> Report:
    """Figures and tables of the paper, its claims, where it disagrees with itself, and other runs if there are any."""
    sections = [section(name, records, models) for name in (*FIGURES, *tables.TABLES)]
    sections.append(
        Section(
            "Commands",
            ("What makes each figure and table, and what it cost.",),
            tables=(commands_table(records, models),),
        )
    )
    ours = outcomes(records)
    sections += [
        Section(
            "Claims of the paper",
            (
                "One rule decides each claim, for the published runs and for ours alike. The verdict is on "
                "ours; where the paper's own runs say something else than its text, the fourth column "
                "shows it.",
            ),
            tables=(ledger(ours, perplexities(models)),),
        ),
        Section("Where text and logs disagree", tables=(disagreements(),)),
    ]
    if others := other_runs(records):
        sections.append(Section("Other runs", tables=(others,)))
    solved = sum(record.result["stopped_because"] == "solved" for record in records.values())
    return Report(
        "Linear Transformers as fast-weight memories: the paper's figures and tables",
        (
            "A memory of fixed size is written with pairs of keys and values and asked for one of them. "
            "The first task asks how many pairs it holds apart, the second whether it can replace a value "
            "by a newer one. Then such memories stand in for the attention of language models.",
            f"Made from {len(records)} records of finished synthetic runs, {solved} of them solved to the stopping "
            f"loss, and from {len(models)} records of language models.",
        ),
        tuple(sections),
        "Made by `fastweights report` from records alone: no number on this page was typed by hand. The "
        "published runs are those that the authors of the paper put beside their code.",
    )


def commands_table(records: Records, models: LanguageModelRecords) -> Table:
    """For each figure and table its command, how many of its runs have a record, and the time they took."""
    rows = []
    for name in FIGURES:
        module = figure_module(name)
        runs = module.runs(seeds=module.SEEDS)
        found = [records[run] for run in runs if run in records]
        quick = len(module.runs(quick=True, seeds=module.SEEDS))
        rows.append(
            (
                f"Figure {name.removeprefix('figure')}",
                f"`fastweights reproduce {name}`",
                f"{len(found)} of {len(runs)}" if runs else "nothing to train",
                duration(seconds(found)) if runs else "–",
                f"{quick} runs" if quick else "–",
            )
        )
    trained = {preset_of(run): record for run, record in models.items()}
    for name, table in tables.TABLES.items():
        presets = table.presets("cpu")
        found = [trained[preset] for preset in presets if preset in trained]
        command = f"`fastweights reproduce {name} --threads 1`"
        rows.append(
            (table.title.partition(":")[0], command, f"{len(found)} of {len(presets)}", duration(seconds(found)), "–")
        )
    columns = ("figure or table", "command", "runs with a record", "time on one core", "with `--quick`")
    return Table("commands", "Runs that two figures or tables share are done once.", columns, tuple(rows))


def seconds(records: Iterable[Record]) -> float:
    """How long the runs took together, as far as their records tell."""
    return sum(number_or_zero(record.result.get("seconds")) for record in records)


def number_or_zero(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def other_runs(records: Records) -> Table | None:
    """Runs that are in none of the paper's figures."""
    rows = tuple(
        (
            run.slug,
            number(record.result["best_loss"] if record.result["best_loss"] is not None else float("nan")),
            str(record.result["steps"]),
            str(record.result["stopped_because"]),
            run.digest,
        )
        for run, record in sorted(records.items(), key=lambda entry: (entry[0].slug, entry[0].digest))
        if names_in_figures(run) is None
    )
    return Table("other", "Runs of your own.", ("run", "best loss", "steps", "ended", "digest"), rows) if rows else None


def update_files(report: Report, files: Iterable[Path]) -> None:
    """Fill the marked places of Markdown files with the tables of the report."""
    tables = {table.name: table.markdown() for section in report.sections for table in section.tables}
    for path in files:
        write_text(path, fill_markers(path.read_text(encoding="utf-8"), tables))


def save_figures(report: Report, folder: Path) -> None:
    """Every figure of a report as PNG and SVG."""
    for section in report.sections:
        for drawing in section.drawings:
            drawing.save(folder)
