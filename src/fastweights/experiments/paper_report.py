"""Everything that records say about the paper's synthetic experiments, as one report and as parts of other files."""

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from types import ModuleType

from fastweights.experiments import FIGURES
from fastweights.experiments.runs import Records, load, names_in_figures, outcomes
from fastweights.reporting.claim import number
from fastweights.reporting.figures.drawing import Drawing
from fastweights.reporting.paper import disagreements, ledger
from fastweights.reporting.records import write_text
from fastweights.reporting.report import Report, Section, Table, fill_markers


def figure_module(name: str) -> ModuleType:
    """The module of a figure, which offers `runs()` and `report()`."""
    if name not in FIGURES:
        raise ValueError(f"figure: there is no {name!r}; possible: {', '.join(FIGURES)}")
    return import_module(f"fastweights.experiments.{name}")


def paper_report(records: Records) -> Report:
    """The figures of the paper, its claims, where it disagrees with itself, and other runs if there are any."""
    sections = [figure_module(name).report(records) for name in FIGURES]
    ours = outcomes(records)
    sections += [
        Section(
            "Claims of the paper",
            (
                "One rule decides each claim, for the published runs and for ours alike. The verdict is on "
                "ours; where the paper's own runs say something else than its text, the fourth column "
                "shows it.",
            ),
            tables=(ledger(ours),),
        ),
        Section("Where text and logs disagree", tables=(disagreements(),)),
    ]
    if others := other_runs(records):
        sections.append(Section("Other runs", tables=(others,)))
    solved = sum(record.result["stopped_because"] == "solved" for record in records.values())
    return Report(
        "Linear Transformers as fast-weight memories: the synthetic experiments",
        (
            "A memory of fixed size is written with pairs of keys and values and asked for one of them. "
            "The first task asks how many pairs it holds apart, the second whether it can replace a value "
            "by a newer one.",
            f"Made from {len(records)} records of finished runs, {solved} of them solved to the stopping loss.",
        ),
        tuple(sections),
        "Made by `fastweights report` from records alone: no number on this page was typed by hand. The "
        "published runs are those that the authors of the paper put beside their code.",
    )


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


def make_report(results: Path, out: Path) -> Path:
    """Write report.html and the figures into `out`; its path."""
    records = load(results)
    if not records:
        raise ValueError(f"no records in {results}: run `fastweights reproduce figure2 --quick` first")
    return paper_report(records).save(out)


def update_files(results: Path, files: Iterable[Path], figures: Path) -> None:
    """Fill the marked places of Markdown files with tables, and a folder with the figures, from the records."""
    report = paper_report(load(results))
    tables = {table.name: table.markdown() for section in report.sections for table in section.tables}
    for path in files:
        write_text(path, fill_markers(path.read_text(encoding="utf-8"), tables))
    for drawing in drawings(report):
        drawing.save(figures)


def drawings(report: Report) -> list[Drawing]:
    """Every figure of a report."""
    return [drawing for section in report.sections for drawing in section.drawings]
