"""Verdicts, tables and figures of recall from records with given accuracies."""

from collections.abc import Callable

import pytest

from fastweights.experiments.claim import Finding
from fastweights.experiments.options import ReproduceOptions
from fastweights.experiments.recall import rebinding, states
from fastweights.experiments.recall.claims import LATER_WORK, ours
from fastweights.experiments.recall.grids import bindings
from fastweights.experiments.recall.grids import states as state_runs
from fastweights.experiments.records import Records
from fastweights.experiments.scores import Key
from marked_records import record
from shown_figures import drawings_of, tables_of

TRACKING = {
    "parity": ("signed-delta-2", "product2"),
    "counting": ("product2",),
    "words-s3": ("product2",),
    "words-s5-swaps": ("signed-delta-2", "product2"),
    "words-s5-cycles": ("product2",),
}


def records_of(accuracy: Callable[[Key], float]) -> Records:
    """Records of every run, with the same accuracy at all lengths and in all groups."""
    records = {}
    for key, run in (*state_runs(), *bindings()):
        groups = {name: accuracy(key) for name in ("all", *map(str, range(9)))}
        records[run] = record(run, dict.fromkeys(("x1", "x4", "x6"), groups))
    return records


def as_expected(key: Key) -> float:
    problem, model = key
    if problem in states.CHANCE:
        return 1.0 if model in TRACKING[problem] else states.CHANCE[problem]
    return {"sum": 0.4, "softmax": 0.6, "delta-attention": 0.5}.get(model, 0.995)


def verdicts(records: Records) -> dict[str, Finding]:
    return {claim.name: claim.judge(ours(records)) for claim in LATER_WORK}


def test_all_hold_when_models_do_what_is_said_of_them() -> None:
    assert {finding.verdict for finding in verdicts(records_of(as_expected)).values()} == {"holds"}


def test_none_holds_when_all_models_are_alike() -> None:
    found = {name: finding.verdict for name, finding in verdicts(records_of(lambda _: 0.7)).items()}
    assert set(found.values()) == {"does not hold"}


def test_a_model_that_tracks_by_itself_holds_in_part() -> None:
    found = verdicts(records_of(lambda key: 1.0 if key[0] in states.CHANCE else 0.5))
    assert found["parity needs β beyond 1"].verdict == "holds in part"


@pytest.mark.parametrize("claim", LATER_WORK, ids=lambda claim: claim.name)
def test_without_runs_nothing_is_decided(claim: object) -> None:
    assert {c.judge(ours({})).verdict for c in LATER_WORK if c is claim} == {"not run yet"}
    assert {c.judge(ours({})).verdict for c in LATER_WORK if c is claim} == {"not run yet"}


def test_a_model_that_is_missing_leaves_a_claim_open_and_a_missing_seed_is_told() -> None:
    records = records_of(as_expected)
    without = {run: found for run, found in records.items() if run.preset != "rebinding-64-delta"}
    name = "overwriting in context separates the rules"
    assert verdicts(without)[name].verdict == "not run yet"
    first = {run: found for run, found in records.items() if run.training.seed == 1}
    assert verdicts(first)[name].verdict == "holds"
    assert verdicts(first)[name].evidence.endswith("(1 of 3 seeds so far)")
    assert "so far" not in verdicts(records)[name].evidence


def test_one_seed_that_fails_is_enough() -> None:
    records = dict(records_of(as_expected))
    failing = next(run for key, run in state_runs() if key == ("parity", "signed-delta-2") and run.training.seed == 2)
    records[failing] = record(failing, {"x6": {"all": 0.9, **{str(place): 0.98 for place in range(6)}}})
    assert verdicts(records)["parity needs β beyond 1"].verdict == "holds in part"


@pytest.mark.parametrize("show", [states, rebinding])
def test_runs_that_decide_have_three_seeds(show: object) -> None:
    assert show in (states, rebinding)
    runs = states.runs() if show is states else rebinding.runs()
    assert len(set(runs)) == len(runs)
    quick = (states if show is states else rebinding).runs(ReproduceOptions(quick=True))
    assert {run.training.seed for run in quick} == {1}
    assert set(quick) < set(runs)
    assert {run.training.seed for run in runs} == {1, 2, 3}


def test_the_table_of_states_has_a_row_for_each_model() -> None:
    (table,) = tables_of(states, records_of(as_expected))
    assert len(table.rows) == 25
    row = next(row for row in table.rows if row[0].startswith("parity") and "(0, 2)" in row[1])
    assert row[2:] == ("100.0 ± 0.0",) * 6
    assert tables_of(states, {})[0].rows == ()


def test_the_table_of_rebinding_leaves_out_what_was_not_run() -> None:
    (table,) = tables_of(rebinding, records_of(as_expected))
    rows = {row[0]: row for row in table.rows}
    assert rows["sum rule"][1] == "40.0 ± 0.0"
    assert rows["delta, centred L2"][-2:] == ("–", "–")
    assert tables_of(rebinding, {})[0].rows == ()


def test_figures_are_drawn_with_records_and_without() -> None:
    for records in ({}, records_of(as_expected)):
        (tracked,), (rebound,) = drawings_of(states, records), drawings_of(rebinding, records)
        panels = tracked.figure.axes
        lines = [line for line in panels[0].get_lines() if line.get_label() == "delta, β in (0, 2)"]
        assert [list(line.get_ydata()) for line in lines] == ([[100.0] * 6] if records else [])
        assert len(rebound.figure.axes[2].patches) == (10 if records else 0)
