"""Random numbers that belong to a row of the batch, not to who computes it."""

import pytest
import torch
from torch import nn

from fastweights.layers.exact.dropout import Dropout
from fastweights.training.random_numbers import DropoutMasks, seed_for


def masks(rows: range) -> torch.Tensor:
    """What two layers of dropout keep of some rows of a batch of six."""
    layer = nn.Sequential(Dropout(0.3), Dropout(0.4))
    with DropoutMasks(layer).of_rows(rows):
        return layer(torch.ones(len(rows), 5, 7))


def test_however_a_batch_is_shared_its_masks_are_the_same() -> None:
    whole = masks(range(6))
    for parts in ([range(3), range(3, 6)], [range(1), range(1, 5), range(5, 6)]):
        assert torch.equal(torch.cat([masks(part) for part in parts]), whole)


def test_rows_and_layers_have_masks_of_their_own() -> None:
    whole = masks(range(64)).flatten(1)
    assert len({tuple(row.tolist()) for row in whole}) == 64
    kept = (whole != 0).double().mean().item()
    assert kept == pytest.approx(0.7 * 0.6, abs=0.05)
    assert whole.max().item() == pytest.approx(1 / (0.7 * 0.6), rel=1e-3)


def test_outside_dropout_is_as_it_was() -> None:
    layer = Dropout(0.5)
    torch.manual_seed(1)
    expected = layer(torch.ones(4, 9))
    with pytest.raises(ValueError, match="shorter"), DropoutMasks(layer).of_rows([1]):
        layer(torch.ones(4, 9))
    torch.manual_seed(1)
    assert torch.equal(layer(torch.ones(4, 9)), expected)


def test_seeds_tell_purposes_and_numbers_apart() -> None:
    numbers = [seed_for(purpose, *given) for purpose in ("a", "b") for given in ((1, 23), (12, 3), (1, 2, 3), ())]
    assert len(set(numbers)) == len(numbers)
    assert all(0 <= number < 2**63 for number in numbers)
    assert seed_for("a", 1) == seed_for("a", 1)
