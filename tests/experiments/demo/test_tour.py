"""The demo's report, from records as its runs would leave them."""

import pytest

from fastweights.experiments.demo import tour
from fastweights.experiments.demo.language_model import Written
from fastweights.experiments.families import codec
from fastweights.experiments.records import Records
from fastweights.experiments.retrieval.bounds import rank_bound
from fastweights.experiments.retrieval.series import feature_dim
from fastweights.runs.record import Record
from fastweights.training.run import Run
from retrieval_records import task_of

WRITTEN = Written(1_000, 16_384, 12.345, 30.0, "the value of <b> is ...")


def record(run: Run, loss: float) -> Record:
    """What a run that ended with this loss would have left."""
    result = {"best_loss": loss, "last_loss": loss, "steps": 300, "stopped_because": "limit"}
    return Record(
        codec().to_plain(run),
        {**result, "protocols": {"text": {"best_loss": loss}}},
        {"step": [100, 200, 300], "loss": [0.5, (loss + 0.5) / 2, loss]},
        {},
    )


@pytest.fixture
def records() -> Records:
    """Memories that learn all that their rank allows, and rules that do what they should."""
    capacity = {
        run: record(run, max(0.0005, rank_bound(feature_dim(model, tour.KEY_DIM) or 0, size)))
        for (model, size), run in tour.capacity_runs().items()
    }
    losses = {"delta": 0.0008, "sum": 0.1, "schlag2021": 0.3}
    overwriting = {run: record(run, losses[rule]) for (_, rule), run in tour.overwriting_runs().items()}
    return capacity | overwriting


def test_the_demo_is_small() -> None:
    runs = tour.runs()
    assert len(set(runs)) == len(runs) <= 30
    assert all(run.training.steps <= 1000 for run in runs)
    assert {task_of(run).setting for run in runs} == {"capacity", "overwriting"}


def test_what_fits_is_told_by_map(records: Records) -> None:
    rows = tour.capacity_rows(tour.capacity_outcomes(records))
    assert [row[:3] for row in rows] == [
        ("Linear (ELU+1)", "32", "32"),
        ("DPFP-1", "64", "64"),
        ("DPFP-2", "128", "128"),
    ]


def test_the_report_shows_four_figures_and_judges_the_claims(records: Records) -> None:
    report = tour.demo_report(tour.capacity_outcomes(records), tour.overwriting_outcomes(records), WRITTEN)
    assert [drawing.name for section in report.sections for drawing in section.drawings] == [
        "memory",
        "image-memory",
        "figure2",
        "figure3",
    ]
    verdicts = [row[-1] for row in report.sections[-1].tables[0].rows]
    assert verdicts == ["holds", "holds", "holds", "does not hold"]
    assert "d_key = 32" in report.html()
    assert "the value of &lt;b&gt; is" in report.html()
    assert "12.3" in report.html()


def test_a_memory_that_held_more_than_its_rank_would_be_noticed(records: Records) -> None:
    run = tour.capacity_runs()["elu", 160]
    wonder = {**records, run: record(run, 0.001)}
    report = tour.demo_report(tour.capacity_outcomes(wonder), tour.overwriting_outcomes(wonder), WRITTEN)
    assert report.sections[-1].tables[0].rows[0][-1] == "does not hold"
