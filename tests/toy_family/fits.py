"""The toy table: how near the fitted line is, by the number of points."""

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import Records
from fastweights.reporting import Table
from fastweights.runs.display import number
from fastweights.training.run import Run
from toy_family.presets import preset

TITLE = "Fits: lines through points"
TEXT = "More points, a better line."
SIZES = (2, 20, 200)


def runs(options: ReproduceOptions = ReproduceOptions()) -> list[Run]:  # noqa: B008  a frozen value
    """A run for every size and seed."""
    return [preset("fit", points=points, seed=seed) for points in SIZES for seed in options.seeds or (1,)]


def losses(records: Records) -> dict[int, float]:
    """The best loss by size."""
    found = {run: records[run].result["best_loss"] for run in runs() if run in records}
    return {points: found[run] for points, run in zip(SIZES, runs(), strict=True) if run in found}


def contents(records: Records) -> tuple[Table, ...]:
    """The losses."""
    rows = tuple((str(points), number(loss)) for points, loss in losses(records).items())
    return (Table("fits", "Loss.", ("points", "loss"), rows),)
