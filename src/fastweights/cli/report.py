"""`fastweights report`."""

from pathlib import Path

from fastweights.cli.results import results_folder
from fastweights.experiments.options import OptionalPath


def report(
    results: OptionalPath = None,
    out: Path = Path("fastweights-report"),
    update: tuple[Path, ...] = (),
    figures: OptionalPath = None,
) -> None:
    """Make one HTML file, and the figures as PNG and SVG, from records.

    Args:
        results: folder with the records; results/ in the repository, fastweights-results/ elsewhere.
        out: folder for report.html and its figures.
        update: Markdown files whose marked tables are filled in.
        figures: another folder that gets the figures.
    """
    from fastweights.experiments.paper import paper_report, update_files
    from fastweights.experiments.records import load

    results = results_folder(results)
    if out.exists() and not out.is_dir():
        raise ValueError(f"out: {out} is a file, a folder is needed")
    missing = [str(path) for path in update if not path.is_file()]
    if missing:
        raise ValueError(f"update: there is no file {', '.join(missing)}; the tables are filled into files that exist")
    records = load(results)
    if not records:
        raise ValueError(f"no records in {results}: run `fastweights reproduce figure2 --quick` first")
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ValueError(f"out: {out} cannot be made ({error.strerror}); name another folder") from error
    made = paper_report(records)
    print(f"The report is {made.save(out)}")
    update_files(made, update)
    if figures is not None:
        made.save_figures(figures)
