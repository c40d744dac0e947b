"""Reads of the delta rule by walking back from the query, against W written step by step."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fastweights.experiments.retrieval.reads.delta import delta_read_weights
from fastweights.update_rules import DeltaRule


def inputs(steps: int, queries: int, dim: int = 6) -> tuple[Tensor, Tensor, Tensor]:
    keys = torch.rand(3, steps, dim, dtype=torch.float64) / dim
    query = torch.randn(3, queries, dim, dtype=torch.float64)
    strengths = torch.rand(3, steps, dtype=torch.float64)
    return keys.requires_grad_(), query.requires_grad_(), strengths.requires_grad_()


def read_step_by_step(keys: Tensor, queries: Tensor, strengths: Tensor, values: Tensor) -> Tensor:
    weights = keys.new_zeros(keys.shape[0], 1, values.shape[-1], keys.shape[-1])
    for t in range(keys.shape[1]):
        weights = DeltaRule().step(weights, keys[:, None, t], values[:, None, t], {"beta": strengths[:, None, t]})
    return queries @ weights[:, 0].mT


@pytest.mark.parametrize("queries", [1, 4])
@pytest.mark.parametrize("steps", [1, 7, 8, 9, 31, 32, 33, 70])
def test_matches_the_rule(steps: int, queries: int) -> None:
    given = inputs(steps, queries)
    values = torch.randn(3, steps, 5, dtype=torch.float64)
    expected = read_step_by_step(*given, values)
    actual = delta_read_weights(*given).mT @ values
    assert_close(actual, expected, rtol=1e-11, atol=1e-13)
    slope = torch.randn_like(expected)
    wanted = torch.autograd.grad(expected, given, slope)
    assert_close(torch.autograd.grad(actual, given, slope), wanted, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("block", [1, 3, 4, 64])
def test_the_size_of_blocks_does_not_matter(block: int) -> None:
    given = inputs(11, 2)
    assert_close(delta_read_weights(*given, block), delta_read_weights(*given), rtol=1e-11, atol=1e-13)


def test_gradients_by_finite_differences() -> None:
    assert torch.autograd.gradcheck(lambda *given: delta_read_weights(*given, 3), inputs(7, 2, dim=3))


def test_a_key_written_in_full_replaces_its_old_value() -> None:
    key = torch.tensor([1.0, 0.0])
    weights = delta_read_weights(key.expand(1, 3, 2), key.expand(1, 1, 2), torch.ones(1, 3))
    assert weights.flatten().tolist() == [0.0, 0.0, 1.0]


def test_a_key_of_zero_writes_nothing() -> None:
    keys, queries, strengths = inputs(9, 2)
    silenced = keys.detach().clone()
    silenced[:, 4] = 0
    kept = [t for t in range(9) if t != 4]
    weights = delta_read_weights(silenced, queries, strengths)
    assert weights[:, 4].abs().max() == 0
    expected = delta_read_weights(silenced[:, kept], queries, strengths[:, kept])
    assert_close(weights[:, kept], expected, rtol=1e-11, atol=1e-13)
