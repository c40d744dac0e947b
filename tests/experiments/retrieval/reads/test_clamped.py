"""Reads of the clamped memory of Schlag et al. (2021), against W written step by step."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from fastweights.experiments.retrieval.reads.clamped import clamped_reads
from fastweights.update_rules import DeltaRule, FastWeightMemoryRule


def inputs(steps: int, queries: int, scale: float) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    keys = scale * torch.randn(3, steps, 4, dtype=torch.float64)
    query = torch.randn(3, queries, 4, dtype=torch.float64)
    values = torch.eye(5, dtype=torch.float64)[torch.randint(5, (3, steps))]
    strengths = torch.rand(3, steps, dtype=torch.float64)
    return keys.requires_grad_(), query.requires_grad_(), values, strengths.requires_grad_()


def write_step_by_step(keys: Tensor, values: Tensor, strengths: Tensor, clamp_first_write: bool) -> Tensor:
    weights = keys.new_zeros(keys.shape[0], 1, values.shape[-1], keys.shape[-1])
    for t in range(keys.shape[1]):
        rule = FastWeightMemoryRule() if t or clamp_first_write else DeltaRule()
        weights = rule.step(weights, keys[:, None, t], values[:, None, t], {"beta": strengths[:, None, t]})
    return weights[:, 0]


@pytest.mark.parametrize("clamp_first_write", [False, True])
@pytest.mark.parametrize("scale", [0.2, 1.0, 4.0], ids=["never clamps", "clamps at times", "clamps always"])
@pytest.mark.parametrize(("steps", "queries"), [(1, 1), (2, 3), (13, 1), (13, 5)])
def test_matches_the_rule(steps: int, queries: int, scale: float, clamp_first_write: bool) -> None:
    keys, query, values, strengths = inputs(steps, queries, scale)
    expected = query @ write_step_by_step(keys, values, strengths, clamp_first_write).mT
    actual = clamped_reads(keys, query, values, strengths, clamp_first_write)
    assert_close(actual, expected, rtol=1e-10, atol=1e-12)
    slope, given = torch.randn_like(expected), (keys, query, strengths)
    wanted = torch.autograd.grad(expected, given, slope)
    assert_close(torch.autograd.grad(actual, given, slope), wanted, rtol=1e-9, atol=1e-10)


def test_the_cases_above_clamp_never_at_times_and_always() -> None:
    shares = []
    for scale in (0.2, 1.0, 4.0):
        keys, _, values, strengths = inputs(13, 1, scale)
        norms = [
            write_step_by_step(keys[:, :t], values[:, :t], strengths[:, :t], True).flatten(1).norm(dim=1)
            for t in range(1, 14)
        ]
        shares.append((torch.stack(norms) > 1 - 1e-9).double().mean().item())
    assert shares[0] == 0
    assert 0 < shares[1] < 1
    assert shares[2] > 0.9


def test_gradients_by_finite_differences() -> None:
    keys, query, values, strengths = inputs(6, 2, 1.0)
    assert torch.autograd.gradcheck(lambda k, q, s: clamped_reads(k, q, values, s, False), (keys, query, strengths))


def test_no_read_is_longer_than_its_query() -> None:
    keys, query, values, strengths = inputs(20, 5, 3.0)
    reads = clamped_reads(keys, query, values, strengths, True)
    assert (reads.norm(dim=-1) <= query.norm(dim=-1) * (1 + 1e-12)).all()
