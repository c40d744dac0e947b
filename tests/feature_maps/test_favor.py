"""FAVOR+ (Eqs. 31-32): an unbiased estimate of exp(k·q), and its random features."""

import math

import pytest
import torch
from torch import Tensor

from fastweights.feature_maps import Favor

KEY = torch.tensor([0.4, -0.3, 0.5, 0.1], dtype=torch.float64)
QUERY = torch.tensor([0.2, 0.6, 0.3, -0.5], dtype=torch.float64)


def estimates(favor: Favor, draws: int, seed: int = 0) -> Tensor:
    """φ(k)·φ(q) for independent draws."""
    generator = torch.Generator().manual_seed(seed)
    projections = [favor.draw(4, generator).double() for _ in range(draws)]
    return torch.stack([favor(KEY, r) @ favor(QUERY, r) for r in projections])


def test_matches_equations_31_and_32() -> None:
    favor, x = Favor(num_features=3), [0.5, -1.0, 2.0]
    rows = favor.draw(3, torch.Generator().manual_seed(1)).double()
    h = math.exp(-sum(y * y for y in x) / 2) / math.sqrt(2)
    projected = [sum(r * y for r, y in zip(row, x, strict=True)) for row in rows.tolist()]
    expected = [h / math.sqrt(3) * math.exp(sign * p) for sign in (1, -1) for p in projected]
    actual = favor(torch.tensor(x, dtype=torch.float64), rows)
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)


def test_relu_kind_replaces_the_exponential() -> None:
    favor, x = Favor(num_features=3, kind="relu"), torch.tensor([0.5, -1.0, 2.0], dtype=torch.float64)
    rows = favor.draw(3, torch.Generator().manual_seed(1)).double()
    projected = (rows @ x).tolist()
    expected = [max(0.0, sign * p) / math.sqrt(3) for sign in (1, -1) for p in projected]
    torch.testing.assert_close(favor(x, rows), torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=0)


@pytest.mark.parametrize("orthogonal", [True, False])
def test_is_an_unbiased_estimate_of_the_softmax_kernel(orthogonal: bool) -> None:
    found = estimates(Favor(num_features=8, orthogonal=orthogonal), draws=4000)
    standard_error = found.std().item() / math.sqrt(len(found))
    assert standard_error < 0.01, "sharp enough to see a bias of 5 per cent"
    assert abs(found.mean().item() - torch.exp(KEY @ QUERY).item()) < 4 * standard_error


def test_error_falls_as_one_over_the_root_of_m() -> None:
    deviations = [estimates(Favor(m, orthogonal=False), draws=1500).std().item() for m in (4, 16, 64)]
    # A factor of 4 in m halves the error; the ratio of two estimated deviations is good to about 4 per cent.
    assert deviations[0] / deviations[1] == pytest.approx(2.0, rel=0.15)
    assert deviations[1] / deviations[2] == pytest.approx(2.0, rel=0.15)


def test_orthogonal_rows_lower_the_variance() -> None:
    orthogonal, independent = (estimates(Favor(8, orthogonal=o), draws=1000).var().item() for o in (True, False))
    assert orthogonal < 0.8 * independent


def test_rows_of_a_block_are_orthogonal_and_as_long_as_gaussian_ones() -> None:
    favor, generator = Favor(num_features=11), torch.Generator().manual_seed(3)
    draws = torch.stack([favor.draw(4, generator).double() for _ in range(2000)])
    for block in (draws[:, :4], draws[:, 4:8], draws[:, 8:]):
        products = block @ block.mT
        lengths = products.diagonal(dim1=1, dim2=2)
        assert (products - torch.diag_embed(lengths)).abs().max() < 1e-4
    # Each row is N(0, I): entries of mean 0 and variance 1, a squared length of mean 4 and variance 8 (χ²).
    lengths = draws.square().sum(-1)
    assert lengths.mean().item() == pytest.approx(4, abs=0.1)
    assert lengths.var().item() == pytest.approx(8, rel=0.08)
    assert draws.mean(dim=0).abs().max() < 0.1, "4 standard errors are 0.09"
    assert (draws.var(dim=0) - 1).abs().max() < 0.2
    assert abs((draws[:, 0, 0] * draws[:, 0, 1]).mean().item()) < 0.1


def test_a_generator_makes_draws_reproducible() -> None:
    favor = Favor(8)
    first, again = (favor.draw(5, torch.Generator().manual_seed(7)) for _ in range(2))
    assert torch.equal(first, again)
    assert not torch.equal(first, favor.draw(5, torch.Generator().manual_seed(8)))
    x = torch.randn(5)
    assert torch.equal(favor(x), favor(x)), "without a draw always the same fixed one"


@pytest.mark.usefixtures("without_shape_checks")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_features": 0}, "at least 1, got 0"),
        ({"num_features": 2.0}, "got 2.0"),
        ({"kind": "cos"}, "one of exp, relu, got 'cos'"),
        ({"kind": "relu", "stabilised": True}, "relu features cannot underflow"),
    ],
)
def test_impossible_arguments_are_refused(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Favor(**arguments)  # type: ignore[arg-type]


def test_log_scaled_is_the_map_with_its_scale_apart() -> None:
    favor, x = Favor(8, stabilised=True), 2 * torch.randn(20, 6, dtype=torch.float64)
    rows = favor.draw(6).double()
    features, scale = favor.log_scaled(x, rows)
    assert torch.equal(features.amax(dim=-1), torch.ones(20, dtype=torch.float64))
    torch.testing.assert_close(features * scale.exp()[:, None], favor(x, rows), rtol=1e-12, atol=0)
    literal = Favor(8)(x * 6**-0.25, rows)
    torch.testing.assert_close(favor(x, rows), literal, rtol=1e-12, atol=0)


def test_gradient_of_the_scaled_map_is_that_of_the_map() -> None:
    favor, rows = Favor(8, stabilised=True), Favor(8).draw(6).double()
    x = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    direction = torch.randn(3, 16, dtype=torch.float64)
    features, scale = favor.log_scaled(x, rows)
    (actual,) = torch.autograd.grad((features * scale.exp()[:, None] * direction).sum(), x)
    (expected,) = torch.autograd.grad((favor(x, rows) * direction).sum(), x)
    torch.testing.assert_close(actual, expected, rtol=1e-10, atol=1e-14)


def test_stabilised_features_keep_their_ratios_where_the_literal_ones_are_all_zero() -> None:
    x = 1000 * torch.randn(4, 6)
    rows = Favor(8).draw(6)
    assert Favor(8)(x, rows).abs().sum() == 0
    features, _ = Favor(8, stabilised=True).log_scaled(x, rows)
    exact, _ = Favor(8, stabilised=True).log_scaled(x.double(), rows.double())
    torch.testing.assert_close(features.double(), exact, rtol=1e-2, atol=1e-6)
