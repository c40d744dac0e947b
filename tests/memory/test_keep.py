"""Weights on the way: `keep` returns them after chosen steps, with gradients, on every backend."""

from typing import Any

import pytest
import torch
from operator_inputs import draw, leaves

from combinations import usable_backends
from equations import linear_recurrence
from fastweights import fast_weight_scan
from random_problems import relative_error

EVERY = usable_backends(torch.float64)

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("keep", [[], [0], [22], [3, 4, 17], [17, 3, 3], range(23)], ids=str)
def test_kept_weights_are_those_of_the_sequence_up_to_there(backend: str, keep: list[int]) -> None:
    tensors = draw(0, steps=23, channels=True, lookups=True)
    reads, final, kept = fast_weight_scan(**tensors, backend=backend, keep=keep)
    expected = linear_recurrence(**tensors)
    assert relative_error(reads, expected[0]) <= 1e-12
    assert relative_error(final, expected[1]) <= 1e-12
    assert kept.shape == (2, 2, len(keep), 5, 8)
    for place, step in enumerate(keep):
        until = {name: x if name == "weights" else x[:, :, : step + 1] for name, x in tensors.items()}
        assert relative_error(kept[:, :, place], linear_recurrence(**until)[1]) <= 1e-12


@pytest.mark.parametrize("backend", EVERY)
def test_gradients_flow_through_kept_weights(backend: str) -> None:
    tensors = draw(1, 1, 2, 9, 3, 2, channels=True, lookups=True)
    ours, exact = leaves(tensors), leaves(tensors)
    reads, final, kept = fast_weight_scan(**ours, backend=backend, keep=[2, 5])
    found = torch.autograd.grad(
        reads.square().sum() + final.sum() + (kept**3).sum(), list(ours.values()), materialize_grads=True
    )
    states = [
        linear_recurrence(**{n: x if n == "weights" else x[:, :, :end] for n, x in exact.items()})[1] for end in (3, 6)
    ]
    reads, final = linear_recurrence(**exact)
    loss = reads.square().sum() + final.sum() + sum((state**3).sum() for state in states)
    for x, y in zip(found, torch.autograd.grad(loss, list(exact.values())), strict=True):
        assert relative_error(x, y) <= 1e-12


def test_a_state_is_rolled_back_by_going_on_from_it() -> None:
    tensors = draw(2, steps=12)
    _, _, kept = fast_weight_scan(**tensors, keep=[6])
    rest = {name: kept[:, :, 0] if name == "weights" else x[:, :, 7:] for name, x in tensors.items()}
    assert relative_error(fast_weight_scan(**rest)[1], fast_weight_scan(**tensors)[1]) <= 1e-14


def test_without_steps_nothing_can_be_kept() -> None:
    tensors = draw(3, steps=0)
    reads, final, kept = fast_weight_scan(**tensors, keep=[])
    assert reads.shape[2] == kept.shape[2] == 0
    assert torch.equal(final, tensors["weights"])


@pytest.mark.parametrize("keep", [[23], [-1], [2, 99]], ids=str)
def test_a_step_that_is_not_there_is_refused(keep: list[int]) -> None:
    with pytest.raises(ValueError, match=r"keep: expected steps from 0 to 22, got \["):
        fast_weight_scan(**draw(0, steps=23), keep=keep)


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize("keep", [[1.5], 5, "2"], ids=str)
def test_what_is_no_list_of_steps_is_refused(keep: Any) -> None:
    with pytest.raises(ValueError, match="keep: expected a list or a tensor of whole numbers, got"):
        fast_weight_scan(**draw(0, steps=23), keep=keep)
    with pytest.raises(ValueError, match="keep: expected none, for there are no steps"):
        fast_weight_scan(**draw(0, steps=0), keep=[0])
