"""The bounds drawn into the figures: against simulation and linear algebra, not against their own formulas."""

import numpy as np
import pytest
import torch

from fastweights.experiments.retrieval.bounds import layer_norm_bound, layer_norm_floor, order_blind_floor, rank_bound


@pytest.mark.parametrize(("size", "length"), [(20, 20), (20, 40), (7, 14)])
def test_averaging_the_values_of_a_key_costs_the_order_blind_floor(size: int, length: int) -> None:
    random = np.random.default_rng(0)
    losses = []
    for _ in range(4000):
        keys, values = random.integers(size, size=(2, length))
        counts = np.zeros((size, size))
        np.add.at(counts, (keys, values), 1)
        newest = dict(zip(keys.tolist(), values.tolist(), strict=True))
        for key, value in newest.items():
            error = counts[key] / counts[key].sum() - np.eye(size)[value]
            losses.append(0.5 * (error**2).sum())
    standard_error = np.std(losses) / len(losses) ** 0.5
    assert order_blind_floor(size, length) == pytest.approx(np.mean(losses), abs=5 * standard_error)


def test_the_floors_of_the_papers_small_problem() -> None:
    assert order_blind_floor(20, 20) == pytest.approx(0.108, abs=5e-4)
    assert order_blind_floor(20, 40) == pytest.approx(0.201, abs=5e-4)
    # Poisson limits for many keys.
    assert order_blind_floor(5000, 5000) == pytest.approx(0.1165, abs=1e-4)
    assert order_blind_floor(5000, 10000) == pytest.approx(0.212, abs=1e-3)


@pytest.mark.parametrize(("width", "size"), [(4, 10), (9, 10), (10, 10), (12, 10)])
def test_no_matrix_of_that_rank_beats_the_rank_bound(width: int, size: int) -> None:
    # The best rank-d approximation of the identity keeps d of its S equal singular values.
    identity = torch.eye(size, dtype=torch.float64)
    u, s, v = torch.linalg.svd(identity)
    s[width:] = 0
    loss = 0.5 * (identity - u @ s.diag() @ v).square().sum(dim=0).mean().item()
    assert rank_bound(width, size) == pytest.approx(loss, abs=1e-12)


@pytest.mark.parametrize("size", [5, 20, 200])
def test_reads_of_zero_mean_and_unit_variance_cannot_beat_the_layer_norm_bound(size: int) -> None:
    target = torch.zeros(size, dtype=torch.float64)
    target[0] = 1
    best = torch.nn.functional.layer_norm(target, (size,), eps=0)  # the direction nearest to the target
    loss = 0.5 * (best - target).square().sum().item()
    assert layer_norm_bound(size) == pytest.approx(loss)
    others = torch.nn.functional.layer_norm(torch.randn(1000, size, dtype=torch.float64), (size,), eps=0)
    assert 0.5 * (others - target).square().sum(dim=1).min().item() > loss


@pytest.mark.parametrize("size", [5, 20])
def test_a_read_of_zero_mean_of_any_length_cannot_beat_the_layer_norm_floor(size: int) -> None:
    target = torch.zeros(size, dtype=torch.float64)
    target[0] = 1
    nearest = target - target.mean()
    assert layer_norm_floor(size) == pytest.approx(0.5 * (nearest - target).square().sum().item())
    assert layer_norm_floor(size) < layer_norm_bound(size)
