"""`fastweights reproduce`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from tyro.conf import Positional, arg
from tyro.extras import literal_type_from_choices

from fastweights.cli.results import results_folder, set_threads
from fastweights.experiments import shown_modules
from fastweights.experiments.options import OptionalPath, ReproduceOptions

NAMES = ", ".join(shown_modules())

if TYPE_CHECKING:
    from collections.abc import Iterable

    from fastweights.training.run import Run

    Shown = str
else:
    Shown = literal_type_from_choices(tuple(shown_modules()))


def reproduce(
    what: Annotated[
        Positional[tuple[Shown, ...]],
        arg(metavar="NAME …", help=f"Figures and tables: {NAMES}.", help_behavior_hint=""),
    ],
    options: Annotated[ReproduceOptions, arg(name="")],
    results: OptionalPath = None,
) -> None:
    """Run what figures and tables of the paper need and make the report. Run the same command again to resume.

    Args:
        what: figures and tables.
        options: how the runs are made.
        results: folder for the records; results/ in the repository, fastweights-results/ elsewhere.
    """
    if not what:
        raise ValueError(f"figures: name at least one of {NAMES}")
    from fastweights.experiments.paper import paper_report, section
    from fastweights.experiments.records import load
    from fastweights.reporting import print_table
    from fastweights.runs.record import check_results_folder

    results = results_folder(results)
    check_results_folder(results)
    load(results)  # a damaged record should not cost the time of the runs
    train(what, options, results)
    records = load(results)
    for name in what:
        for table in section(name, records).tables:
            print_table(table.caption, table.columns, table.rows)
    print(f"The report is {paper_report(records).save(Path('fastweights-report'))}")


def train(what: tuple[str, ...], options: ReproduceOptions, results: Path) -> None:
    """Carry out the runs that have no record: small ones side by side, large ones in turn unless jobs are asked for."""
    from fastweights.experiments.carry_out import sweep_runs, train_in_turn
    from fastweights.experiments.families import shown_module
    from fastweights.runs.display import Display
    from fastweights.runs.environment import available_cores
    from fastweights.runs.sweep.cluster import ClusterAddress
    from fastweights.training.distributed import Processes

    set_threads(options.threads)
    cluster = None
    if options.cluster is not None:
        cluster = ClusterAddress(options.cluster, options.cluster_ca, options.cluster_cert, options.cluster_key)
        cluster.connect().close()  # a mistake here should not cost the time to read the data
    title = " ".join(["fastweights reproduce", *what, *(["--quick"] if options.quick else [])])
    groups: dict[str | None, list[Run]] = {}
    with Processes.join(options.device) as processes:
        for name in what:
            module = shown_module(name)
            runs = module.runs(options)
            groups.setdefault(_data(module, runs, options), []).extend(runs)
        for data, runs in groups.items():
            side_by_side = options.jobs is not None or cluster is not None
            small = [run for run in runs if run.task.threads == 1 or side_by_side]
            if processes.first:
                jobs = available_cores() if options.jobs is None else options.jobs
                sweep_runs(small, results, jobs=jobs, title=title, data=data, cluster=cluster)
            display = Display.on_terminal(quiet=not processes.first)
            large = list(dict.fromkeys(run for run in runs if run not in set(small)))
            train_in_turn(large, results, data=data, processes=processes, display=display)


def _data(module: Any, runs: "Iterable[Run]", options: ReproduceOptions) -> str | None:
    """The data of the runs: what their module takes if none is named (`data`), or what the user names."""
    if hasattr(module, "data"):
        taken: str = module.data(options)
        return taken
    needing = next((run.task for run in runs if run.task.needs_data), None)
    return None if needing is None else needing.given(options.data)
