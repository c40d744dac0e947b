"""Figure 3: three seeds of each variant, and what each reached."""

from matplotlib.legend import Legend

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.retrieval import figure3
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED
from fastweights.experiments.retrieval.presets import preset
from retrieval_records import record
from shown_figures import drawings_of, tables_of


def test_it_has_three_seeds_of_each_variant() -> None:
    runs = figure3.runs()
    assert len(runs) == 18
    assert {run.training.seed for run in runs} == {1, 2, 3}
    tanh = [run for run in runs if "tanh" in run.slug]
    assert {(run.training.learning_rate, run.training.batch_size) for run in tanh} == {(1e-4, 128)}


def test_quick_runs_are_few_and_other_seeds_can_be_asked_for() -> None:
    assert 0 < len(figure3.runs(ReproduceOptions(quick=True))) < len(figure3.runs())
    assert {run.training.seed for run in figure3.runs(ReproduceOptions(seeds=(4, 5)))} == {4, 5}


def test_the_table_has_the_median_of_the_seeds_under_both_lengths() -> None:
    losses = {1: (0.5, 0.7), 2: (0.2, 0.3), 3: (0.3, 0.9)}
    runs = {seed: preset("overwriting", "dpfp1", "sum", 20, seed, AS_PUBLISHED) for seed in losses}
    (row,) = tables_of(figure3, {runs[seed]: record(runs[seed], *losses[seed]) for seed in losses})[0].rows
    assert row[0] == "DPFP-1, sum rule"
    assert row[2:4] == ("0.300", "0.700")
    assert row[-1] == "200, 200, 200"


def test_other_sizes_are_not_shown() -> None:
    other = preset("overwriting", "dpfp1", "sum", 40, 1, AS_PUBLISHED)
    assert tables_of(figure3, {other: record(other)})[0].rows == ()


def test_without_runs_of_ones_own_the_symbols_of_the_published_ones_have_names() -> None:
    axes = drawings_of(figure3, {})[0].figure.axes[0]
    names = {text.get_text() for legend in axes.findobj(Legend) for text in legend.get_texts()}
    assert {"DPFP-1, delta rule", "DPFP-1, sum rule", "Schlag (2021)", "where a published run ended"} <= names
