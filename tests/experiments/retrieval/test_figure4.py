"""Figure 4: the learning curves of Figure 2 at its largest size."""

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.retrieval import figure2, figure4
from retrieval_records import record, task_of
from shown_figures import drawings_of


def test_it_is_part_of_figure_2() -> None:
    assert set(figure4.runs()) < set(figure2.runs())
    assert {task_of(run).num_keys for run in figure4.runs()} == {600}


def test_quick_runs_are_few_and_other_seeds_can_be_asked_for() -> None:
    assert 0 < len(figure4.runs(ReproduceOptions(quick=True))) < len(figure4.runs())
    assert {run.training.seed for run in figure4.runs(ReproduceOptions(seeds=(4, 5)))} == {4, 5}


def test_until_the_long_runs_are_there_it_shows_the_quick_ones() -> None:
    quick = {run: record(run) for run in figure4.runs(ReproduceOptions(quick=True))}
    (drawing,) = drawings_of(figure4, quick)
    assert "S = 140" in drawing.caption
    (drawing,) = drawings_of(figure4, quick | {run: record(run) for run in figure4.runs()})
    assert "S = 600" in drawing.caption


def test_a_curve_above_the_losses_of_the_paper_is_inside_the_axes() -> None:
    run = figure4.runs()[0]
    (drawing,) = drawings_of(figure4, {run: record(run, 0.9)})
    assert drawing.figure.axes[0].get_ylim()[1] > 0.9
