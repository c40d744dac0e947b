"""Bindings: what is asked for is what was bound last, replayed here with a dictionary."""

import numpy as np
import pytest
import torch

from fastweights.data.bindings import OFTEN, Bindings
from fastweights.data.marked import NOTHING

PROBLEMS = [Bindings(), Bindings(3, 5, 40, 0.6), Bindings(12, 4, 30, rebinding=False), Bindings(2, 2, 60)]


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
@pytest.mark.parametrize("times", [1, 3])
def test_answers_are_the_values_bound_last(problem: Bindings, times: int) -> None:
    sequences = problem.draw(8, times, np.random.default_rng(3))
    ask = problem.variables + problem.values
    for row, targets, groups in zip(*(x.tolist() for x in sequences), strict=True):
        assert len(row) == 2 * times * problem.events
        values: dict[int, int] = {}
        counts: dict[int, int] = {}
        for first, second, nothing, target, _, group in zip(
            row[::2], row[1::2], targets[::2], targets[1::2], groups[::2], groups[1::2], strict=True
        ):
            assert nothing == NOTHING
            if first == ask:
                assert target == values[second]
                assert group == min(counts[second] - 1, OFTEN)
            else:
                assert target == NOTHING
                values[first] = second - problem.variables
                counts[first] = counts.get(first, 0) + 1
        if not problem.rebinding:
            assert counts == dict.fromkeys(range(problem.variables), 1)


def test_a_share_of_the_events_are_questions() -> None:
    sequences = Bindings(8, 8, 200, 0.3).draw(50, 1, np.random.default_rng(0))
    assert float(sequences.asked.float().mean()) == pytest.approx(0.15, abs=0.01)


def test_the_same_numbers_draw_the_same_sequences() -> None:
    one, two, other = (Bindings().draw(4, 1, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert torch.equal(one.inputs, two.inputs)
    assert not torch.equal(one.inputs, other.inputs)


@pytest.mark.parametrize(
    ("fields", "complaint"),
    [
        ({"variables": 1}, "variables: expected at least 2, got 1"),
        ({"questions": 1.0}, "questions: expected a share between 0 and 1, got 1.0"),
        ({"rebinding": False, "events": 8}, "events: without rebinding at least 9 are needed for 8 variables, got 8"),
    ],
)
def test_what_cannot_be_drawn_is_refused(fields: dict[str, object], complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        Bindings(**fields)  # type: ignore[arg-type]
