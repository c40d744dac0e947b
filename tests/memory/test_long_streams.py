"""Very long streams: rounding errors do not add up, and a memory that contracts stays bounded."""

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from combinations import usable_backends
from fastweights import DPFP, DeltaRule, FastWeightAttention, NoNormalisation, SumNormalisation, fast_weight_scan
from random_problems import relative_error

SEGMENT = 10_000
HEADS, KEY_DIM, VALUE_DIM = 2, 4, 4


def stream(segment: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Queries, keys, values and strengths of one piece of an endless stream, in float32."""
    generator = torch.Generator().manual_seed(segment)
    queries, keys, values = (torch.randn(1, HEADS, SEGMENT, KEY_DIM, generator=generator) for _ in range(3))
    strengths = torch.rand(1, HEADS, SEGMENT, generator=generator)
    mapped = [SumNormalisation()(DPFP(nu=1)(x)) for x in (queries, keys)]
    return mapped[0], mapped[1], values, strengths


def follow(weights: NDArray[np.float64], segment: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """W ← W + β (v - W k) ⊗ k (Eq. 24) in float64: all reads of the segment, and W after it."""
    queries, keys, values, strengths = (x[0].double().numpy() for x in stream(segment))
    reads = np.empty_like(values)
    for t in range(SEGMENT):
        key = keys[:, t, :, None]
        correction = values[:, t, :, None] - weights @ key
        weights = weights + strengths[:, t, None, None] * correction @ key.transpose(0, 2, 1)
        reads[:, t] = (weights @ queries[:, t, :, None])[..., 0]
    return reads, weights


def test_a_hundred_thousand_steps_stay_within_a_millionth_of_float64() -> None:
    exact = np.zeros((HEADS, VALUE_DIM, 2 * KEY_DIM))
    # The oracle takes minutes for as many steps; agreement with it over short ones is shown elsewhere.
    names = [name for name in usable_backends(torch.float32) if name != "recurrent"]
    carried: dict[str, Tensor | None] = dict.fromkeys(names)
    errors: dict[str, list[float]] = {name: [] for name in names}
    for segment in range(10):
        expected, exact = follow(exact, segment)
        queries, keys, values, strengths = stream(segment)
        for name in names:
            reads, weights = fast_weight_scan(queries, keys, values, strengths, strengths, carried[name], backend=name)
            carried[name] = weights
            worst_read = relative_error(reads[0], torch.from_numpy(expected))
            errors[name].append(max(worst_read, relative_error(weights[0], torch.from_numpy(exact))))
    for name, of_segments in errors.items():
        assert max(of_segments) <= 1e-6, name
        # No growth: after 100,000 steps no more than a little above what it was after 10,000.
        assert of_segments[-1] <= 1.5 * of_segments[0], name


@pytest.mark.parametrize("backend", usable_backends(torch.float64))
def test_the_memory_is_bounded_where_the_rule_contracts(backend: str) -> None:
    """|W_t| ≤ |W_{t-1}| + β |v| |k| if β |k|² ≤ 2, in the Frobenius norm; for 1,000 random streams."""
    problems, steps = 1_000, 64
    keys, queries = torch.randn(2, problems, 1, steps, 5, dtype=torch.float64)
    keys = keys * 10.0 ** torch.empty(problems, 1, steps, 1, dtype=torch.float64).uniform_(-2, 2)
    squares = keys.square().sum(-1)
    # Up to the very limit: β |k|² = 2 reflects along k.
    share = torch.rand(problems, 1, steps, dtype=torch.float64).mul(1.2).clamp(max=1)
    strengths = 2 * share / squares
    values = torch.randn(problems, 1, steps, 3, dtype=torch.float64)
    added = (strengths * values.norm(dim=-1) * squares.sqrt()).cumsum(-1)
    weights = torch.randn(problems, 1, 3, 5, dtype=torch.float64)
    for length in (1, 7, steps):
        inputs = (x[:, :, :length] for x in (queries, keys, values, strengths, strengths))
        _, after = fast_weight_scan(*inputs, weights, backend=backend)
        bound = weights.norm(dim=(-2, -1)) + added[:, :, length - 1]
        assert bool((after.norm(dim=(-2, -1)) <= bound * (1 + 1e-12)).all())


@pytest.mark.parametrize("backend", usable_backends(torch.float64))
def test_what_is_wrong_with_the_memory_never_grows_where_the_rule_contracts(backend: str) -> None:
    """If v = W* k always, |W_t - W*| never increases as long as β |k|² ≤ 2."""
    problems, steps = 200, 40
    keys = torch.randn(problems, 1, steps, 5, dtype=torch.float64)
    strengths = 2 * torch.rand(problems, 1, steps, dtype=torch.float64) / keys.square().sum(-1)
    target, weights = torch.randn(2, problems, 1, 3, 5, dtype=torch.float64)
    values = keys @ target.mT
    distance = (weights - target).norm(dim=(-2, -1))
    for t in range(steps):
        inputs = (x[:, :, t : t + 1] for x in (keys, keys, values, strengths, strengths))
        _, weights = fast_weight_scan(*inputs, weights, backend=backend)
        nearer = (weights - target).norm(dim=(-2, -1))
        assert bool((nearer <= distance * (1 + 1e-12)).all())
        distance = nearer


@pytest.mark.parametrize("backend", usable_backends(torch.float64))
def test_beyond_the_limit_the_memory_diverges(backend: str) -> None:
    keys = torch.ones(1, 1, 100, 1, dtype=torch.float64)
    strengths = torch.full((1, 1, 100), 2.1, dtype=torch.float64)
    start = torch.ones(1, 1, 1, 1, dtype=torch.float64)
    _, weights = fast_weight_scan(keys, keys, 0 * keys, strengths, strengths, start, backend=backend)
    assert weights.item() == pytest.approx((-1.1) ** 100, rel=1e-10)


def test_a_layer_says_so_when_its_memory_overflows() -> None:
    layer = FastWeightAttention(4, 1, update_rule=DeltaRule(), normalisation=NoNormalisation())
    with torch.no_grad():
        layer.projection.weight.fill_(3.0)
    x = 1e3 * torch.ones(1, 200, 4) * torch.tensor([1.0, -1.0, 1.0, 1.0])
    with pytest.raises(FloatingPointError, match="SumNormalisation"):
        layer(x)
