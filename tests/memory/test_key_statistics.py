"""How keys share a memory: crosstalk, features that nobody uses, and keys of either sign."""

import math

import pytest
import torch

from fastweights import DPFP, AttentionNormalisation, CentredL2, FastWeightAttention, L2Normalisation
from fastweights.memory import record

pytestmark = pytest.mark.usefixtures("one_thread")


def test_key_statistics() -> None:
    """Two orthogonal keys, each twice: a third of the pairs of different steps are equal; two features are unused."""
    layer = FastWeightAttention(
        4, 1, feature_map=DPFP(1), normalisation=L2Normalisation(), attention_normalisation=AttentionNormalisation()
    )
    with torch.no_grad():
        layer.projection.weight.copy_(torch.eye(4).repeat(4, 1)[: layer.projection.out_features])
    x = torch.tensor([[[1.0, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]]])
    with record(layer) as seen:
        layer(x)
    statistics = seen[""].key_statistics
    assert statistics.crosstalk.item() == pytest.approx(1 / 3)
    assert statistics.dead.item() == pytest.approx(6 / 8)
    assert not statistics.signed
    assert seen[""].median_balance().isfinite().all()


def test_keys_of_packed_sequences_are_not_paired() -> None:
    layer, x = FastWeightAttention(8, 2, normalisation=L2Normalisation()), torch.randn(2, 7, 8)
    boundaries = torch.tensor([[1, 0, 0, 1, 0, 0, 0], [1, 0, 1, 0, 0, 1, 0]]).bool()
    with record(layer) as packed:
        _, state = layer(x[:, :4], boundaries=boundaries[:, :4])
        layer(x[:, 4:], state, boundaries=boundaries[:, 4:])
    with record(layer) as alone:
        for row, start, end in ((0, 0, 3), (0, 3, 7), (1, 0, 2), (1, 2, 5), (1, 5, 7)):
            layer(x[row : row + 1, start:end])
    found, expected = packed[""].key_statistics, alone[""].key_statistics
    torch.testing.assert_close(found.crosstalk, expected.crosstalk, rtol=1e-6, atol=1e-6)
    assert torch.equal(found.dead, expected.dead)


def test_a_balance_means_nothing_for_keys_of_either_sign() -> None:
    layer = FastWeightAttention(8, 2, normalisation=CentredL2())
    with record(layer) as seen:
        layer(torch.randn(1, 9, 8))
    assert seen[""].key_statistics.signed
    assert seen[""].median_balance().isnan().all()
    table = seen.summary()
    assert math.isnan(float(table.rows[0][table.columns.index("median_balance")]))
