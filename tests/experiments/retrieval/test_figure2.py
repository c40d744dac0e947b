"""Which runs each figure needs, and which records a figure takes for its own."""

import re
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

import pytest
from fastweights.experiments.retrieval.execute import PUBLISHED, TEXT, RetrievalRun, preset
from fastweights.experiments.runs import names_in_figures, outcomes

from fastweights.experiments import FIGURES, figure2, figure3, figure4, figure5
from fastweights.experiments.paper import figure_module, paper_report, save_figures, update_files
from fastweights.experiments.retrieval.outcomes import published
from fastweights.runs.record import Record

MODULES: list[ModuleType] = [import_module(f"fastweights.experiments.{name}") for name in FIGURES]


def record(run: RetrievalRun, loss: float | None = 0.25, text: float = 0.5) -> Record:
    """What a run that ended with these losses would have left."""
    protocols = {"text": {"best_loss": text}, "published": {"best_loss": loss}}
    result = {"best_loss": loss, "last_loss": loss, "steps": 200, "stopped_because": "patience", "seconds": 7.5}
    curve = {"step": [100, 200], "loss": [0.5, loss]}
    return Record(run.to_dict(), {**result, "protocols": protocols}, curve, {})


@pytest.fixture(scope="module")
def as_published() -> dict[RetrievalRun, Record]:
    """Records of every run of the figures for which there is a published one, with its loss."""
    records = {}
    for run in (run for module in MODULES for run in module.runs()):
        names = names_in_figures(run)
        assert names is not None
        known = published().where(run.setting, *names, num_keys=run.num_keys)
        if known and known.all[0].best == known.all[0].best:
            records[run] = record(run, known.all[0].best)
    return records


def test_figure_2_has_the_papers_grid() -> None:
    runs = figure2.runs()
    assert len(runs) == len(set(runs)) == 7 * 17 + 7 + 10 + 4 * 17
    assert {run.num_keys for run in runs} == set(figure2.SIZES)
    assert all(run.protocol == PUBLISHED and run.setting == "capacity" for run in runs)
    assert {run.seed for run in runs if "softmax" in run.slug} == {1, 2, 3, 4, 5}
    assert {run.seed for run in runs if "softmax" not in run.slug} == {1}
    assert all(run.num_keys <= 140 for run in runs if "favor512" in run.slug)


def test_figure_3_has_three_seeds_of_each_variant() -> None:
    runs = figure3.runs()
    assert len(runs) == 18
    assert {run.seed for run in runs} == {1, 2, 3}
    tanh = [run for run in runs if "tanh" in run.slug]
    assert {(run.learning_rate, run.batch_size) for run in tanh} == {(1e-4, 128)}


def test_figure_4_is_part_of_figure_2() -> None:
    assert set(figure4.runs()) < set(figure2.runs())
    assert {run.num_keys for run in figure4.runs()} == {600}


def test_figure_5_has_both_rules_with_three_maps_at_ten_sizes() -> None:
    slugs = [run.slug for run in figure5.runs()]
    for pair in ("elu-sum", "elu-delta", "dpfp1-sum", "dpfp1-delta", "dpfp2-sum", "dpfp2-delta"):
        assert sum(f"-{pair}-" in slug for slug in slugs) == 10
    assert sum("-dpfp1-schlag2021-" in slug for slug in slugs) == 5
    assert sum("-tanh-schlag2021-" in slug for slug in slugs) == 2


@pytest.mark.parametrize("module", MODULES[1:], ids=lambda module: module.__name__)
def test_quick_runs_are_few_and_other_seeds_can_be_asked_for(module: ModuleType) -> None:
    assert 0 < len(module.runs(quick=True)) < len(module.runs())
    assert {run.seed for run in module.runs(seeds=(4, 5))} == {4, 5}


def test_an_unknown_figure_gets_the_list() -> None:
    with pytest.raises(ValueError, match="no 'figure6'; possible: figure1, figure2"):
        figure_module("figure6")


def test_only_runs_exactly_as_in_the_paper_count() -> None:
    run = preset("capacity", "dpfp1", "sum", 100, 1, PUBLISHED)
    assert names_in_figures(run) == ("dpfp1", "sum")
    assert names_in_figures(preset("capacity", "softmax", None, 20, 3, PUBLISHED)) == ("softmax", "none")
    for other in (replace(run, learning_rate=0.01), replace(run, protocol=TEXT), replace(run, key_dim=32)):
        assert names_in_figures(other) is None
        assert not outcomes({other: record(other)})


def test_an_outcome_is_what_the_record_says() -> None:
    run = preset("overwriting", "elu", "delta", 40, 2, PUBLISHED)
    (found,) = outcomes({run: record(run, 0.125, 0.75)})
    assert (found.setting, found.model, found.rule, found.num_keys, found.seed) == (
        "overwriting",
        "elu",
        "delta",
        40,
        2,
    )
    assert (found.best, found.best_by_text, found.steps, found.finite) == (0.125, 0.75, 200, True)
    assert found.curve == ((100, 0.5), (200, 0.125))


def test_a_loss_that_was_not_finite_is_known_as_such() -> None:
    run = preset("overwriting", "favor64", "delta", 140, 1, PUBLISHED)
    (found,) = outcomes({run: record(run, None)})
    assert not found.finite
    assert found.best != found.best


def test_records_with_the_published_losses_agree_with_them(as_published: dict[RetrievalRun, Record]) -> None:
    rows = figure2.report(as_published).tables[0].rows
    assert rows
    for row in rows:
        assert row[2] == row[3]
        assert row[6] == row[7].partition(" ")[0]
        assert (row[4], row[8]) == ("0", "+0.000")
    claims = paper_report(as_published, {}).sections[-2].tables[0]
    verdicts = {row[1].partition(".")[0]: row[-1] for row in claims.rows}
    assert verdicts["Our update rule outperforms all other variants"] == "holds"
    assert verdicts["In all problems our update rule outperforms all other approaches"] == "holds in part"


def test_the_distance_from_the_published_runs_is_told() -> None:
    losses = {60: 0.005, 80: 0.2, 100: 0.3}  # published: 0.0245, 0.108, 0.164
    runs = {preset("capacity", "elu", "sum", size, 1, PUBLISHED): loss for size, loss in losses.items()}
    row = figure2.report({run: record(run, loss) for run, loss in runs.items()}).tables[0].rows[0]
    assert row == ("Linear (ELU+1)", "64", "none", "60", "1", "100", "0.164", "0.300", "+0.136", "3 of 17")


def test_of_several_seeds_the_median_and_the_spread_are_told() -> None:
    runs = {
        preset("capacity", "softmax", "sum", 600, seed, PUBLISHED): loss for seed, loss in enumerate((0.2, 0, 0.05))
    }
    row = figure2.report({run: record(run, loss) for run, loss in runs.items()}).tables[0].rows[0]
    assert row[5:9] == ("600", "0.030", "0.050 (0 to 0.200, 3 seeds)", "+0.020")


@pytest.mark.slow
def test_the_whole_report_is_the_same_every_time(as_published: dict[RetrievalRun, Record], tmp_path: Path) -> None:
    backwards = dict(reversed(as_published.items()))
    document = tmp_path / "document.md"
    written = []
    for records in (as_published, backwards):
        report = paper_report(records, {})
        document.write_text("<!-- capacity --><!-- end capacity --> <!-- claims --><!-- end claims -->")
        update_files(report, [document])
        save_figures(report, tmp_path / "figures")
        figures = {path.name: path.read_bytes() for path in sorted((tmp_path / "figures").iterdir())}
        written.append((report.html(), document.read_text(), figures))
    assert written[0] == written[1]
    assert len(written[0][2]) == 10
    assert "| DPFP-3 | 384 | 380 | 380 | 0 | 600 | 0.198 | 0.198 | +0.000 | 17 of 17 |" in written[0][1]


def test_a_report_can_be_made_of_one_record() -> None:
    run = preset("capacity", "dpfp1", "sum", 20, 1, PUBLISHED)
    own = replace(run, learning_rate=0.005)
    html = paper_report({run: record(run), own: record(own)}, {}).html()
    assert "Other runs" in html
    assert own.digest in html
    assert re.search(r"1 of 204", html)
