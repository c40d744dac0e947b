"""Normalisations on retrieval: which runs there are, and what the table says of their records."""

from pathlib import Path

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.retrieval import writes
from fastweights.experiments.retrieval.names import STRENGTHS, WAYS_TO_WRITE
from fastweights.experiments.retrieval.writes import SHOWN_STRENGTHS, SHOWN_WAYS, SIZES, runs
from fastweights.memory import CentredL2
from fastweights.runs.record import Record
from fastweights.training.run import Run
from retrieval_records import record, task_of
from shown_figures import drawings_of, tables_of


def test_ways_and_strengths_are_crossed() -> None:
    assert SHOWN_WAYS.keys() == WAYS_TO_WRITE.keys()
    assert SHOWN_STRENGTHS.keys() == STRENGTHS.keys()
    quick = runs(ReproduceOptions(quick=True))
    assert len({task_of(run).attention for run in quick}) == len(quick) == 12
    assert {task_of(run).num_keys for run in runs()} == set(SIZES)
    assert len(set(runs())) == len(runs())
    assert any(isinstance(task_of(run).attention.normalisation, CentredL2) for run in quick)  # type: ignore[attr-defined]


def records(losses: dict[str, float]) -> dict[Run, Record]:
    """Every run with a loss by the end of its preset's name; the others have not been run."""
    return {
        run: record(run, loss)
        for run in runs()
        for name, loss in losses.items()
        if run.preset == f"overwriting-dpfp1-{name}" and task_of(run).num_keys in (20, 100)
    }


def test_the_table_has_steps_of_what_was_solved_and_losses_of_the_rest(tmp_path: Path) -> None:
    (table,) = tables_of(writes, records({"delta": 0.0005, "nlms": 0.25, "delta-2": 0.0001}))
    rows = {row[:2]: row[2:] for row in table.rows}
    assert rows["sum (the paper)", "σ(x)"] == ("solved after 200 steps", "–", "solved after 200 steps", "–")
    assert rows["sum, NLMS step", "σ(x)"][0] == "0.250 (0.250)"
    assert rows["sum (the paper)", "2 σ(x)"][2] == "solved after 200 steps"
    assert len(rows) == 3
    (drawing,) = drawings_of(writes, records({"delta": 0.0005, "nlms": 0.25, "nlms-bias": 0.0004}))
    drawing.save(tmp_path)
    assert (tmp_path / "writes.png").stat().st_size > 0
    assert drawings_of(writes, {}) == []
