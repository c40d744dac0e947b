"""Figure 2: the paper's grid, and how far our runs are from the published ones."""

import pytest
from matplotlib.legend import Legend

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.records import coverage_of
from fastweights.experiments.retrieval import figure2
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED
from fastweights.experiments.retrieval.presets import preset
from fastweights.training.run import Run
from retrieval_records import record, records_as_published, task_of
from shown_figures import drawings_of, tables_of


def test_it_has_the_papers_grid() -> None:
    runs = figure2.runs()
    assert len(runs) == len(set(runs)) == 7 * 17 + 7 + 10 + 4 * 17
    assert {task_of(run).num_keys for run in runs} == set(figure2.SIZES)
    assert all(task_of(run).protocol == AS_PUBLISHED and task_of(run).setting == "capacity" for run in runs)
    assert {run.training.seed for run in runs if "softmax" in run.slug} == {1, 2, 3, 4, 5}
    assert {run.training.seed for run in runs if "softmax" not in run.slug} == {1}
    assert all(task_of(run).num_keys <= 140 for run in runs if "favor512" in run.slug)


def test_quick_runs_are_few_and_other_seeds_can_be_asked_for() -> None:
    assert 0 < len(figure2.runs(ReproduceOptions(quick=True))) < len(figure2.runs())
    assert {run.training.seed for run in figure2.runs(ReproduceOptions(seeds=(4, 5)))} == {4, 5}


def test_records_with_the_published_losses_agree_with_them() -> None:
    rows = tables_of(figure2, records_as_published())[0].rows
    assert rows
    for row in rows:
        assert row[2] == row[3]
        assert row[6] == row[7].partition(" ")[0]
        assert (row[4], row[8]) == ("0", "+0.000")


def row_of(losses: dict[Run, float]) -> tuple[str, ...]:
    return tables_of(figure2, {run: record(run, loss) for run, loss in losses.items()})[0].rows[0]


def test_the_distance_from_the_published_runs_is_told() -> None:
    losses = {60: 0.005, 80: 0.2, 100: 0.3}  # published: 0.0245, 0.108, 0.164
    row = row_of({preset("capacity", "elu", "sum", size, 1, AS_PUBLISHED): loss for size, loss in losses.items()})
    assert row == ("Linear (ELU+1)", "64", "none", "60", "1", "100", "0.164", "0.300", "+0.136", "3 of 17")


def test_of_several_seeds_the_median_and_the_spread_are_told() -> None:
    losses = enumerate((0.2, 0.0, 0.05))
    row = row_of({preset("capacity", "softmax", "sum", 600, seed, AS_PUBLISHED): loss for seed, loss in losses})
    assert row[5:9] == ("600", "0.030", "0.050 (0 to 0.200, 3 seeds)", "+0.020")


def test_a_single_run_at_a_size_of_ones_own_is_inside_the_axes_and_every_line_has_a_name() -> None:
    run = preset("capacity", "dpfp2", "sum", 33, 1, AS_PUBLISHED)
    axes = drawings_of(figure2, {run: record(run, 0.9)})[0].figure.axes[0]
    (own,) = (line for line in axes.lines if list(line.get_xdata()) == [33])
    assert (list(own.get_ydata()), own.get_marker()) == ([0.9], "^")
    assert axes.get_ylim()[1] > 0.9
    colours = {line.get_color() for line in axes.lines}
    named = {line.get_color() for legend in axes.findobj(Legend) for line in legend.get_lines() if line.get_label()}
    assert len(colours) > 5
    assert colours <= named


@pytest.mark.parametrize("count", [0, 3])
def test_coverage_counts_the_records(count: int) -> None:
    records = {run: record(run) for run in figure2.runs()[:count]}
    found, wanted, quick = coverage_of(figure2, records)
    assert (len(found), wanted, quick) == (count, 204, 25)
