"""States of layers as named tensors, split and joined by rows."""

import math
from dataclasses import replace

import pytest
import torch
from tiny_run import tiny_task

from fastweights.training.carried_state import States, all_finite, join_rows, state_tensors, states_from_tensors


def states(rows: int, seed: int = 0) -> States:
    """States of the tiny model after a few words."""
    task = tiny_task()
    model = task.build()
    words = torch.randint(40, (rows, 5), generator=torch.Generator().manual_seed(seed))
    with torch.no_grad():
        _, found = model(words)
    return list(found)


def empty(rows: int) -> States:
    task = tiny_task()
    found = task.initial_states(task.build(), rows)
    assert found is not None
    return found


def test_every_tensor_has_the_name_of_its_layer_and_field() -> None:
    names = state_tensors(states(2))
    assert {name.partition(".")[0] for name in names} == {"0", "1"}
    assert {"0.weights", "0.steps", "1.weights", "1.steps"} <= names.keys()
    assert all(len(tensor) == 2 for tensor in names.values())


def test_rows_that_are_split_and_joined_are_the_same() -> None:
    whole = state_tensors(states(4))
    parts = [{name: x[rows] for name, x in whole.items()} for rows in (slice(0, 1), slice(1, 4))]
    joined = join_rows(parts)
    assert joined.keys() == whole.keys()
    assert all(torch.equal(joined[name], x) for name, x in whole.items())
    assert join_rows([]) == {}


def test_states_come_back_to_the_last_bit() -> None:
    whole = state_tensors(states(3))
    again = state_tensors(states_from_tensors(empty(3), whole, 3))
    assert all(torch.equal(again[name], x) for name, x in whole.items())


def test_states_of_another_model_are_refused() -> None:
    tensors = state_tensors(states(3))
    with pytest.raises(ValueError, match=r"those of another model; only one of the two has 2\.weights"):
        states_from_tensors(empty(3), {**tensors, "2.weights": tensors["1.weights"]}, 3)
    for odd in (tensors["1.weights"][:2], tensors["1.weights"][..., :-1], tensors["1.weights"].double()):
        with pytest.raises(ValueError, match=r"1\.weights is that of another model"):
            states_from_tensors(empty(3), {**tensors, "1.weights": odd}, 3)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_one_number_that_is_not_finite_is_enough(bad: float) -> None:
    good = states(2)
    assert all_finite(good)
    weights = good[1].weights.clone()
    weights.view(-1)[-1] = bad
    assert not all_finite([good[0], replace(good[1], weights=weights)])
