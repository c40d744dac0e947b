"""The adaptive softmax is a probability distribution, and its loss is that of the word asked for."""

import pytest
import torch
from torch.testing import assert_close

from fastweights.layers.adaptive_embedding import AdaptiveEmbedding


def example(cutoffs: tuple[int, ...]) -> tuple[AdaptiveEmbedding, torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    layer = AdaptiveEmbedding(50, 8, cutoffs).double()
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    return layer, torch.randn(2, 40, 8, dtype=torch.float64), torch.randint(0, 50, (2, 40))


@pytest.mark.parametrize("cutoffs", [(), (10,), (10, 30), (1, 2, 49)])
def test_probabilities_sum_to_one_and_losses_are_theirs(cutoffs: tuple[int, ...]) -> None:
    layer, hidden, targets = example(cutoffs)
    log_p = layer.log_probabilities(hidden)
    assert_close(log_p.exp().sum(-1), torch.ones(2, 40, dtype=torch.float64), rtol=1e-12, atol=0)
    assert_close(layer.losses(hidden, targets), -log_p.gather(-1, targets[..., None])[..., 0], rtol=1e-12, atol=0)


@torch.no_grad()
def test_worked_example_of_one_cluster() -> None:
    layer, hidden, _ = example((3,))
    h, table, bias = hidden[0, 0], layer.table, layer.bias
    head = [float(h @ table[i] + bias[i]) for i in range(3)] + [
        float(h @ layer.cluster_table[0] + layer.cluster_bias[0])
    ]
    tail = [float(h @ table[i] + bias[i]) for i in range(3, 50)]
    exp = lambda logits: torch.tensor(logits, dtype=torch.float64).exp()  # noqa: E731
    p_cluster, p_word = exp(head)[3] / exp(head).sum(), exp(tail)[7 - 3] / exp(tail).sum()
    assert_close(layer.log_probabilities(hidden)[0, 0, 7], (p_cluster * p_word).log(), rtol=1e-12, atol=0)


def test_a_cluster_without_targets_gets_no_gradient() -> None:
    layer, hidden, _ = example((10, 30))
    layer.losses(hidden, torch.full((2, 40), 5)).sum().backward()
    assert layer.table.grad is not None
    assert layer.table.grad[10:].abs().sum() == 0
    assert layer.table.grad[:10].abs().sum() > 0


def test_embedding_is_scaled() -> None:
    layer, _, targets = example((10,))
    assert_close(layer(targets), layer.table[targets] * 8**0.5)


@pytest.mark.parametrize("cutoffs", [(0,), (50,), (10, 10), (30, 10)])
def test_bad_cutoffs_are_named(cutoffs: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="cutoffs: expected increasing numbers between 0 and 50"):
        AdaptiveEmbedding(50, 8, cutoffs)
