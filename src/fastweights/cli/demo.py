"""`fastweights demo`."""

from pathlib import Path


def demo(out: Path = Path("fastweights-demo")) -> None:
    """The paper in one or two minutes: overwrite an association, fill memories, train rules, and read the report.

    Args:
        out: folder for the report, its figures and the records; made if missing.
    """
    from fastweights.experiments.demo import tour
    from fastweights.runs.environment import available_cores

    tour.run(out, available_cores())
