"""The demo's report, from records as its runs would leave them."""

from pathlib import Path

import pytest
from fastweights.cli.language_model import evaluate
from fastweights.cli.options import EvaluateOptions
from fastweights.experiments.retrieval.execute import RetrievalRun
from fastweights.experiments.runs import Records

from fastweights.experiments import demo, language_model_demo
from fastweights.experiments.demo.language_model import Written
from fastweights.experiments.retrieval.bounds import rank_bound
from fastweights.experiments.retrieval.series import feature_dim
from fastweights.runs.record import Record

WRITTEN = Written(1_000, 16_384, 12.345, 30.0, "the value of <b> is ...")


def record(run: RetrievalRun, loss: float) -> Record:
    """What a run that ended with this loss would have left."""
    result = {"best_loss": loss, "last_loss": loss, "steps": 300, "stopped_because": "limit"}
    return Record(
        run.to_dict(),
        {**result, "protocols": {"text": {"best_loss": loss}}},
        {"step": [100, 200, 300], "loss": [0.5, (loss + 0.5) / 2, loss]},
        {},
    )


@pytest.fixture
def records() -> Records:
    """Memories that learn all that their rank allows, and rules that do what they should."""
    capacity = {
        run: record(run, max(0.0005, rank_bound(feature_dim(model, demo.KEY_DIM) or 0, size)))
        for (model, size), run in demo.capacity_runs().items()
    }
    losses = {"delta": 0.0008, "sum": 0.1, "schlag2021": 0.3}
    overwriting = {run: record(run, losses[rule]) for (_, rule), run in demo.overwriting_runs().items()}
    return capacity | overwriting


def test_the_demo_is_small() -> None:
    runs = demo.runs()
    assert len(set(runs)) == len(runs) <= 30
    assert all(run.max_steps <= 1000 for run in runs)
    assert {run.setting for run in runs} == {"capacity", "overwriting"}


def test_what_fits_is_told_by_map(records: Records) -> None:
    rows = demo.capacity_rows(demo.capacity_outcomes(records))
    assert [row[:3] for row in rows] == [
        ("Linear (ELU+1)", "32", "32"),
        ("DPFP-1", "64", "64"),
        ("DPFP-2", "128", "128"),
    ]


def test_the_report_shows_three_figures_and_judges_the_claims(records: Records) -> None:
    report = demo.demo_report(demo.capacity_outcomes(records), demo.overwriting_outcomes(records), WRITTEN)
    assert [drawing.name for section in report.sections for drawing in section.drawings] == [
        "memory",
        "figure2",
        "figure3",
    ]
    verdicts = [row[-1] for row in report.sections[-1].tables[0].rows]
    assert verdicts == ["holds", "holds", "holds", "does not hold"]
    assert "d_key = 32" in report.html()
    assert "the value of &lt;b&gt; is" in report.html()
    assert "12.3" in report.html()


def test_a_memory_that_held_more_than_its_rank_would_be_noticed(records: Records) -> None:
    run = demo.capacity_runs()["elu", 160]
    wonder = {**records, run: record(run, 0.001)}
    report = demo.demo_report(demo.capacity_outcomes(wonder), demo.overwriting_outcomes(wonder), WRITTEN)
    assert report.sections[-1].tables[0].rows[0][-1] == "does not hold"


def test_sentences_are_plain_english() -> None:
    prose = (
        "The “with” statement wraps a *block* (see below), and then it ends; this is a sentence that is long enough."
    )
    grammar = "   with_stmt ::= 'with' with_item ('.' with_item)*: a grammar that goes on and on and on and on."
    text = f"Heading\n*******\n\n{prose}\n\n{grammar}\n"
    assert list(language_model_demo.sentences(text)) == [
        "the with statement wraps a *block* ( see below ) , and then it ends ; this is a sentence that is long enough ."
    ]


def test_the_language_model_is_trained_once_and_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(language_model_demo, "STEPS", 4)
    monkeypatch.setattr(language_model_demo, "LENGTH", 5)
    written = language_model_demo.run(tmp_path)
    assert written.text in capsys.readouterr().out
    assert written.text.startswith("the value of ")
    # Two layers of eight heads, each with values of 16 under 32 features.
    assert written.memory == 2 * 8 * 16 * 32
    again = language_model_demo.run(tmp_path)
    assert again == written
    assert "step" not in capsys.readouterr().out
    evaluate(EvaluateOptions(tmp_path / "language-model", limit=50, cache=tmp_path / "cache", device="cpu"))
    assert "test perplexity" in capsys.readouterr().out
