"""How many associations a memory holds."""

import pytest
import torch

from fastweights.feature_maps import Identity
from fastweights.memory import L2Normalisation
from fastweights.playground.capacity import (
    KEY_DIM,
    MOST,
    bound,
    counts,
    curve,
    feature_dim,
    hold,
    most,
    stored_pictures,
)
from fastweights.playground.choices import MemoryChoice

DELTA, SUM = MemoryChoice("delta", "identity", "l2"), MemoryChoice("sum", "identity", "l2")


def random_keys(count: int) -> torch.Tensor:
    drawn = torch.randn(1, 1, MOST, KEY_DIM, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    return L2Normalisation()(Identity()(drawn))[0, 0, :count]


def test_the_loss_and_the_pictures_of_the_sum_rule_by_hand() -> None:
    keys, held = random_keys(5), hold(SUM, 5, 1.0)
    reads = keys @ keys.T
    loss = 0.5 * (reads - torch.eye(5, dtype=torch.float64)).square().sum(dim=1).mean()
    assert held.loss == pytest.approx(float(loss), abs=1e-12)
    pictures = stored_pictures(5)
    torch.testing.assert_close(held.pictures, reads @ pictures, rtol=0, atol=1e-12)
    error = float((reads[3] @ pictures - pictures[3]).norm() / pictures[3].norm())
    assert held.errors[3] == pytest.approx(error, abs=1e-12)


def test_one_association_is_held_and_no_memory_is_below_the_rank_bound() -> None:
    for choice in (DELTA, SUM, MemoryChoice("delta", "dpfp-2", "l2")):
        assert hold(choice, 1, 1.0).loss == pytest.approx(0, abs=1e-12)
        least = dict(bound(choice))
        assert all(loss >= least[count] - 1e-12 for count, loss in curve(choice, 1.0))


def test_the_bound_begins_at_the_number_of_features() -> None:
    choice = MemoryChoice("delta", "dpfp-1", "l2")
    assert feature_dim(choice) == 16
    assert most(choice) == 32
    assert dict(bound(choice))[16] == 0
    assert dict(bound(choice))[32] == pytest.approx(0.25)
    assert counts(choice)[0] == 1
    assert counts(choice)[-1] == 32


@pytest.mark.parametrize(("count", "strength"), [(0, 1.0), (MOST + 1, 1.0), (4, 1.5)])
def test_other_numbers_are_refused(count: int, strength: float) -> None:
    with pytest.raises(ValueError, match="expected"):
        hold(DELTA, count, strength)
