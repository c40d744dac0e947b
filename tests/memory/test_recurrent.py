"""The oracle itself, against numbers worked out by hand and against the recurrence with its matrix spelled out."""

import pytest
import torch
from operator_inputs import draw
from torch import Tensor

from equations import linear_recurrence
from fastweights import fast_weight_scan
from random_problems import relative_error


def sequence(*steps: list[float]) -> Tensor:
    return torch.tensor(steps, dtype=torch.float64)[None, None]


def test_two_steps_by_hand() -> None:
    # W_1 = ½ (1, 2)ᵀ (2, 1) = [[1, ½], [2, 1]].
    # Then g = ½: W = [[½, ¼], [1, ½]], read with k = (0, 2): r = (½, 1); a = ¼, b = 3, v = (1, -1):
    # u = 3 v - ¼ r = (2.875, -3.25);  W_2 = W + u ⊗ k = [[0.5, 6], [1, -6]].
    reads, weights = fast_weight_scan(
        queries=sequence([1.0, 1.0], [2.0, 1.0]),
        keys=sequence([2.0, 1.0], [0.0, 2.0]),
        values=sequence([1.0, 2.0], [1.0, -1.0]),
        erase=torch.tensor([[[0.0, 0.25]]], dtype=torch.float64),
        write=torch.tensor([[[0.5, 3.0]]], dtype=torch.float64),
        decay=torch.tensor([[[1.0, 0.5]]], dtype=torch.float64),
        backend="recurrent",
    )
    assert reads.tolist() == [[[[1.5, 3.0], [7.0, -4.0]]]]
    assert weights.tolist() == [[[[0.5, 6.0], [1.0, -6.0]]]]


@pytest.mark.parametrize("steps", [0, 1, 2, 17])
def test_it_is_the_recurrence_with_its_matrix_spelled_out(steps: int) -> None:
    tensors = draw(steps, steps=steps)
    actual, expected = fast_weight_scan(**tensors, backend="recurrent"), linear_recurrence(**tensors)
    for x, y in zip(actual, expected, strict=True):
        assert x.shape == y.shape
        assert relative_error(x, y) <= 1e-14


def test_without_steps_the_weights_are_a_copy() -> None:
    weights, none = torch.ones(1, 1, 2, 2), torch.ones(1, 1, 0, 2)
    _, final = fast_weight_scan(none, none, none, none[..., 0], none[..., 0], weights, backend="recurrent")
    final.zero_()
    assert torch.equal(weights, torch.ones(1, 1, 2, 2))
