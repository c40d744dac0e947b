"""Verdicts, the table and the figure of question answering from records with given accuracies."""

from collections.abc import Callable

from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.questions import babi
from fastweights.experiments.questions.claims import REVIEW, ours
from fastweights.experiments.questions.presets import grid
from fastweights.experiments.records import Records
from fastweights.experiments.scores import Key
from marked_records import record
from shown_figures import drawings_of, tables_of


def records_of(accuracy: Callable[[Key], float]) -> Records:
    return {run: record(run, {"valid": {"all": 1.0}, "test": {"all": accuracy(key)}}) for key, run in grid()}


def verdicts(records: Records) -> list[str]:
    return [claim.judge(ours(records)).verdict for claim in REVIEW]


def as_expected(key: Key) -> float:
    _, task, model = key
    return 0.97 if task == "15" or model == "delta-l2" else 0.8


def test_all_hold_when_the_delta_rule_answers() -> None:
    assert verdicts(records_of(as_expected)) == ["holds", "holds", "holds"]


def test_one_task_that_is_not_solved_is_told() -> None:
    found = records_of(lambda key: 0.5 if key[1] == "6" else as_expected(key))
    assert verdicts(found) == ["holds in part", "holds in part", "holds"]
    assert "qa6 50.0 ± 0.0" in REVIEW[0].judge(ours(found)).evidence


def test_a_task_that_is_missing_leaves_claims_open() -> None:
    found = {run: each for run, each in records_of(as_expected).items() if not run.preset.startswith("qa6-10000")}
    assert verdicts(found) == ["not run yet", "not run yet", "holds"]


def test_without_runs_nothing_is_decided() -> None:
    assert verdicts({}) == ["not run yet"] * 3
    assert [claim.judge(ours({})).verdict for claim in REVIEW] == ["not run yet"] * 3


def test_the_grid_has_all_tasks_and_three_seeds_of_what_decides() -> None:
    runs = babi.runs()
    assert len(runs) == len(set(runs)) == 80 + 24 + 4 + 2 * 12
    assert len(babi.runs(ReproduceOptions(quick=True))) == 80


def test_the_table_has_a_row_for_each_task() -> None:
    (table,) = tables_of(babi, records_of(as_expected))
    assert len(table.rows) == 20
    assert len({len(row) for row in table.rows} | {len(table.columns)}) == 1
    first = table.rows[0]
    assert first[0] == "qa1 single supporting fact"
    assert first[4] == "97.0"
    assert first[-2:] == ("97.0 ± 0.0", "7 s / 7 s")
    assert table.rows[2][-1] == "7 s / –", "qa3 is not run with 10,000 questions"
    assert tables_of(babi, {})[0].rows == ()


def test_the_figure_is_drawn_with_records_and_without() -> None:
    assert len(drawings_of(babi, {})[0].figure.axes) == 2
    few, many = drawings_of(babi, records_of(as_expected))[0].figure.axes
    points = {line.get_label(): len(list(line.get_xdata())) for line in few.get_lines()}
    assert points["delta, L2"] == 20
    assert "delta, sum-normalised, NLMS step" in {line.get_label() for line in many.get_lines()}
