"""The shared embedding and its label-smoothed loss: the definition, gradients, and what is no target."""

import pytest
import torch
from torch.nn.functional import cross_entropy, log_softmax
from torch.testing import assert_close

from fastweights.layers.tied_embedding import TiedEmbedding

SMOOTHING = [0.0, 0.1, 0.7]


def example() -> tuple[TiedEmbedding, torch.Tensor, torch.Tensor]:
    layer = TiedEmbedding(11, 6).double()
    torch.nn.init.normal_(layer.table)
    labels = torch.tensor([[3, 10, 0, -100], [5, -1, 5, 1]])
    return layer, torch.randn(2, 4, 6, dtype=torch.float64, requires_grad=True), labels


@pytest.mark.parametrize("smoothing", SMOOTHING)
def test_losses_are_the_definition(smoothing: float) -> None:
    """(1 - ε - e) nll + e Σ_v nll_v with e = ε / (V - 1)."""
    layer, hidden, labels = example()
    nll = -log_softmax(hidden @ layer.table.T, dim=-1)
    share = smoothing / 10
    expected = [
        (1 - smoothing - share) * nll[row, place, label] + share * nll[row, place].sum()
        for row, place in [(0, 0), (0, 1), (0, 2), (1, 0), (1, 2), (1, 3)]
        for label in [labels[row, place]]
    ]
    found = layer.losses(hidden, labels, smoothing)
    assert_close(found, torch.stack(expected), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("smoothing", SMOOTHING)
def test_gradients_are_those_of_torch(smoothing: float) -> None:
    layer, hidden, labels = example()
    real = labels >= 0
    # torch lets the target share ε too: its ε is V / (V - 1) times ours.
    expected = (
        cross_entropy(hidden[real] @ layer.table.T, labels[real], label_smoothing=smoothing * 11 / 10, reduction="none")
        if smoothing * 1.1 <= 1
        else None
    )
    assert expected is not None
    found = layer.losses(hidden, labels, smoothing)
    assert_close(found, expected, rtol=1e-12, atol=1e-12)
    weights = torch.randn(6, dtype=torch.float64)
    leaves = (hidden, layer.table)
    for one, other in zip(
        torch.autograd.grad(found @ weights, leaves), torch.autograd.grad(expected @ weights, leaves), strict=True
    ):
        assert_close(one, other, rtol=1e-11, atol=1e-12)


def test_no_target_at_all() -> None:
    layer, hidden, labels = example()
    found = layer.losses(hidden, torch.full_like(labels, -100), 0.1)
    assert found.shape == (0,)
    (gradient,) = torch.autograd.grad(found.sum(), hidden)
    assert not gradient.any()


def test_embeddings_are_rows_of_the_table() -> None:
    layer, hidden, _ = example()
    tokens = torch.tensor([[4, 0], [10, 4]])
    assert torch.equal(layer(tokens), layer.table[tokens] * 6**0.5)
    assert_close(layer.log_probabilities(hidden), log_softmax(hidden @ layer.table.T, dim=-1), rtol=1e-12, atol=1e-12)
