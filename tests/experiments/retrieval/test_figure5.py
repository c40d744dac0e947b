"""Figure 5: both rules with three maps at ten sizes, under both evaluation lengths."""

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.retrieval import figure5
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED
from fastweights.experiments.retrieval.presets import preset
from retrieval_records import record
from shown_figures import drawings_of, tables_of


def test_it_has_both_rules_with_three_maps_at_ten_sizes() -> None:
    slugs = [run.slug for run in figure5.runs()]
    for pair in ("elu-sum", "elu-delta", "dpfp1-sum", "dpfp1-delta", "dpfp2-sum", "dpfp2-delta"):
        assert sum(f"-{pair}-" in slug for slug in slugs) == 10
    assert sum("-dpfp1-schlag2021-" in slug for slug in slugs) == 5
    assert sum("-tanh-schlag2021-" in slug for slug in slugs) == 2


def test_quick_runs_are_few_and_other_seeds_can_be_asked_for() -> None:
    assert 0 < len(figure5.runs(ReproduceOptions(quick=True))) < len(figure5.runs())
    assert {run.training.seed for run in figure5.runs(ReproduceOptions(seeds=(4, 5)))} == {4, 5}


def test_every_loss_is_in_the_table() -> None:
    run = preset("overwriting", "elu", "delta", 60, 1, AS_PUBLISHED)
    ours, by_text, published = tables_of(figure5, {run: record(run, 0.125, 0.75)})[0].rows
    assert ours == ("Linear, delta rule", "ours, length S", "–", "–", "0.125", *["–"] * 7)
    assert by_text[4] == "0.750"
    assert published[1] == "published, length S"
    assert "–" not in published


def test_every_loss_is_inside_the_axes_and_the_theory_is_named_in_the_legend() -> None:
    run = preset("overwriting", "dpfp1", "delta", 80, 1, AS_PUBLISHED)
    figure = drawings_of(figure5, {run: record(run, 3e-5, 2e-5)})[0].figure
    assert all(axes.get_ylim()[0] < 2e-5 and not axes.texts for axes in figure.axes)
    names = {text.get_text() for text in figure.legends[0].get_texts()}
    assert {
        "floor of order-blind rules",
        "bound of reads of unit variance",
        "DPFP-1, delta rule",
        "Linear, delta rule",
    } <= names
