"""Which records count as runs of the paper, what is read from them, and the runs that the authors published."""

import json
from dataclasses import replace

import pytest

from fastweights.experiments.families import codec
from fastweights.experiments.retrieval.evaluation import AS_PUBLISHED
from fastweights.experiments.retrieval.outcomes import median, outcomes, published
from fastweights.experiments.retrieval.presets import preset
from fastweights.training.run import Run
from retrieval_records import record


@pytest.mark.parametrize("change", ["training.learning_rate=0.01", "task.protocol=text", "task.key_dim=32"])
def test_only_runs_exactly_as_in_the_paper_count(change: str) -> None:
    run = preset("capacity", "dpfp1", "sum", 100, 1, AS_PUBLISHED)
    (found,) = outcomes({run: record(run)})
    assert (found.model, found.rule) == ("dpfp1", "sum")
    other = codec().changed(run, [change])
    assert not outcomes({other: record(other)})


def test_softmax_counts_whatever_rule_was_named() -> None:
    run = preset("capacity", "softmax", None, 20, 3, AS_PUBLISHED)
    (found,) = outcomes({run: record(run)})
    assert (found.model, found.rule, found.seed) == ("softmax", "none", 3)


def test_a_run_without_a_preset_name_counts_by_what_it_is() -> None:
    run = preset("capacity", "dpfp1", "sum", 100, 1, AS_PUBLISHED)
    assert list(outcomes({replace(run, preset=""): record(run)}))


def test_an_outcome_is_what_the_record_says() -> None:
    run = preset("overwriting", "elu", "delta", 40, 2, AS_PUBLISHED)
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
    run = preset("overwriting", "favor64", "delta", 140, 1, AS_PUBLISHED)
    (found,) = outcomes({run: record(run, None)})
    assert not found.finite
    assert found.best != found.best


def test_all_published_runs_are_there() -> None:
    assert len(published().all) == 320
    assert len(published().where(setting="capacity").all) == 240
    run = published().where("overwriting", "dpfp2", "delta", 100).all[0]
    assert (run.best, run.steps) == (0.0853857, 300)
    assert not published().where("overwriting", "favor64", "delta", 140).all[0].finite


def test_the_median_counts_what_is_not_a_number_as_bad() -> None:
    nan = float("nan")
    assert median([3.0, 1.0, 2.0]) == 2.0
    assert median([1.0, nan, 3.0]) == 3.0
    assert median([nan, nan, 1.0]) != median([nan, nan, 1.0])
    assert median([]) != median([])


def test_a_run_is_the_same_after_its_record_was_read() -> None:
    run = preset("capacity", "favor128-stabilised", "sum", 60, 1, AS_PUBLISHED)
    again: Run = codec().from_plain(json.loads(record(run).to_json())["config"])
    assert list(outcomes({again: record(run)}))
