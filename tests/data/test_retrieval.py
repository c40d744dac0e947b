"""The synthetic problem: what is asked, what the answer is, and that both depend on nothing but seed and step."""

import pytest
import torch

from fastweights.data.retrieval import RetrievalBatch, RetrievalProblem, random_numbers, torch_generator

SETTINGS = ("capacity", "overwriting")


def last_value(keys: list[int], values: list[int], query: int) -> int:
    return dict(zip(keys, values, strict=True))[query]


def equal(one: RetrievalBatch, other: RetrievalBatch) -> bool:
    return all(torch.equal(x, y) for x, y in zip(one, other, strict=True))


def test_capacity_sequences_hold_every_key_and_value_once() -> None:
    batch = RetrievalProblem("capacity", 9).batch(50, seed=1, step=3)
    for part in (batch.keys, batch.values):
        assert torch.equal(part.sort(dim=1).values, torch.arange(9).expand(50, 9))
    assert len({tuple(row) for row in batch.keys.tolist()}) > 45
    assert not torch.equal(batch.keys, batch.values)


def test_overwriting_sequences_are_twice_as_long_and_repeat_keys() -> None:
    problem = RetrievalProblem("overwriting", 20)
    batch = problem.batch(400, seed=1, step=1)
    assert batch.keys.shape == (400, 40)
    distinct = sum(len(set(row)) for row in batch.keys.tolist()) / 400
    assert distinct == pytest.approx(20 * (1 - 0.95**40), abs=0.3)
    for part in (batch.keys, batch.values):
        counts = part.flatten().bincount(minlength=20)
        assert counts.shape == (20,)
        assert counts.min() > 650
        assert counts.max() < 950


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_answer_is_the_value_that_the_key_had_last(setting: str) -> None:
    batch = RetrievalProblem(setting, 7).batch(200, seed=2, step=5)  # type: ignore[arg-type]
    assert batch.query_mask.all()
    for keys, values, query, target in zip(*(x.tolist() for x in batch[:4]), strict=True):
        assert target == [last_value(keys, values, query[0])]


def test_frequent_keys_are_asked_for_more_often() -> None:
    batch = RetrievalProblem("overwriting", 5).batch(4000, seed=1, step=1)
    share = (batch.keys == batch.queries).double().mean(dim=1)
    # The key of a random position: each sequence's keys count with the square of their frequency.
    frequencies = torch.nn.functional.one_hot(batch.keys, 5).double().mean(dim=1)
    assert share.mean().item() == pytest.approx(frequencies.square().sum(dim=1).mean().item(), abs=0.01)


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.parametrize("max_queries", [None, 1, 4])
def test_evaluation_asks_for_every_key_that_occurs(setting: str, max_queries: int | None) -> None:
    problem = RetrievalProblem(setting, 10)  # type: ignore[arg-type]
    batch = problem.evaluation(30, 10, max_queries, seed=1, step=100)
    for row in range(30):
        keys, values = batch.keys[row].tolist(), batch.values[row].tolist()
        asked = batch.queries[row][batch.query_mask[row]].tolist()
        assert asked == sorted(set(keys))[:max_queries]
        answers = batch.targets[row][batch.query_mask[row]].tolist()
        assert answers == [last_value(keys, values, query) for query in asked]


@pytest.mark.parametrize("setting", SETTINGS)
def test_everything_is_a_function_of_seed_and_step(setting: str) -> None:
    problem = RetrievalProblem(setting, 8)  # type: ignore[arg-type]
    first = problem.batch(4, seed=1, step=7)
    torch.manual_seed(123)
    assert equal(first, problem.batch(4, seed=1, step=7))
    assert not equal(first, problem.batch(4, seed=1, step=8))
    assert not equal(first, problem.batch(4, seed=2, step=7))
    evaluation = problem.evaluation(4, 8, seed=1, step=7)
    assert equal(evaluation, problem.evaluation(4, 8, seed=1, step=7))
    assert not torch.equal(evaluation.keys, first.keys[:, :8])


def test_streams_do_not_run_into_each_other() -> None:
    arguments = [(1, 0), (1, 0, 1), (1, 0, 1, 0, 2), (1, 0, 2), (1, 1, 1), (2, 0, 1), (12, 0, 1)]
    draws = {random_numbers(*each).integers(2**62) for each in arguments}
    assert len(draws) == len(arguments)
    seeds = {torch_generator(*each).initial_seed() for each in arguments}
    assert len(seeds) == len(arguments)


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("num_keys", [1, 0, -3, 2.5, True])
def test_too_few_keys_are_refused(num_keys: int) -> None:
    with pytest.raises(ValueError, match=r"num_keys: must be an integer of at least 2, got"):
        RetrievalProblem("capacity", num_keys)


@pytest.mark.usefixtures("without_shape_checks")
def test_an_unknown_setting_is_refused_by_naming_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"setting: must be one of capacity, overwriting, got 'other'"):
        RetrievalProblem("other", 5)  # type: ignore[arg-type]


def test_no_sequence_without_replacement_is_longer_than_there_are_keys() -> None:
    with pytest.raises(ValueError, match=r"length: without replacement it must be 5, got 10"):
        RetrievalProblem("capacity", 5).evaluation(2, 10, seed=1, step=1)
