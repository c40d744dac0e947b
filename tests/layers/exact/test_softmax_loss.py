"""The loss of a softmax: what PyTorch's own operators give, in value and gradient."""

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy, linear
from torch.testing import assert_close

from fastweights.kernels.native import buffer_pool
from fastweights.layers.exact import softmax_loss
from fastweights.layers.exact.softmax_loss import softmax_losses


def example(dtype: torch.dtype = torch.float64) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Rows, weights, bias, targets and a weight for each loss."""
    generator = torch.Generator().manual_seed(3)
    sizes = ((23, 6), (40, 6), (40,), (23,))
    hidden, weights, bias, factors = (torch.randn(*size, generator=generator, dtype=dtype) for size in sizes)
    return hidden, weights, bias, torch.randint(40, (23,), generator=generator), factors


def gradients(losses: Tensor, factors: Tensor, inputs: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
    return torch.autograd.grad((losses * factors).sum(), inputs)


@pytest.mark.parametrize("chunk_bytes", [1, 40 * 8 * 5, 1 << 20])
@pytest.mark.parametrize("large", [1, 1 << 40])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_values_and_gradients_are_those_of_pytorch(
    chunk_bytes: int, large: int, smoothing: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(softmax_loss, "CHUNK_BYTES", chunk_bytes)
    monkeypatch.setattr(buffer_pool, "LARGE", large)
    *inputs, targets, factors = example()
    leaves = tuple(x.requires_grad_() for x in inputs)
    found = softmax_losses(*leaves, targets, smoothing)
    # PyTorch gives the target its share of ε as well.
    expected = cross_entropy(linear(*leaves), targets, reduction="none", label_smoothing=smoothing * 40 / 39)
    assert_close(found, expected, rtol=1e-12, atol=0)
    for got, wanted in zip(gradients(found, factors, leaves), gradients(expected, factors, leaves), strict=True):
        assert_close(got, wanted, rtol=1e-11, atol=1e-13)


def test_worked_example() -> None:
    # Logits ln 1, ln 2, ln 5: probabilities 1/8, 2/8, 5/8.
    hidden = torch.ones(1, 1, dtype=torch.float64, requires_grad=True)
    weights = torch.tensor([[1.0], [2.0], [5.0]], dtype=torch.float64).log().requires_grad_()
    bias = torch.zeros(3, dtype=torch.float64, requires_grad=True)
    loss = softmax_losses(hidden, weights, bias, torch.tensor([1]))
    assert_close(loss, torch.tensor([4.0], dtype=torch.float64).log())
    loss.sum().backward()
    p = torch.tensor([1 / 8, 2 / 8 - 1, 5 / 8], dtype=torch.float64)
    assert bias.grad is not None
    assert weights.grad is not None
    assert_close(bias.grad, p)
    assert_close(weights.grad[:, 0], p)
    assert_close(hidden.grad, (p @ weights.detach())[None])


def test_the_graph_can_be_walked_twice() -> None:
    hidden, weights, bias, targets, _ = example()
    hidden.requires_grad_()
    loss = softmax_losses(hidden, weights, bias, targets, 0.1).sum()
    (first,) = torch.autograd.grad(loss, hidden, retain_graph=True)
    (second,) = torch.autograd.grad(loss, hidden)
    assert torch.equal(first, second)


def test_second_derivatives_are_those_of_pytorch() -> None:
    *inputs, targets, factors = example()
    leaves = tuple(x.requires_grad_() for x in inputs)
    found = softmax_losses(*leaves, targets, 0.1)
    expected = cross_entropy(linear(*leaves), targets, reduction="none", label_smoothing=0.1 * 40 / 39)
    twice = []
    for losses in (found, expected):
        first = torch.autograd.grad((losses * factors).sum(), leaves, create_graph=True)
        twice.append(torch.autograd.grad(sum(x.square().sum() for x in first), leaves))
    for got, wanted in zip(*twice, strict=True):
        assert_close(got, wanted, rtol=1e-11, atol=1e-12)


def test_large_logits_neither_overflow_nor_vanish() -> None:
    hidden = torch.ones(2, 1, requires_grad=True)
    losses = softmax_losses(hidden, torch.tensor([[1e4], [-1e4]]), torch.zeros(2), torch.tensor([0, 1]))
    assert losses.tolist() == [0.0, 2e4]
    losses.sum().backward()
    assert hidden.grad is not None
    assert hidden.grad.flatten().tolist() == [0.0, 2e4]


def test_not_a_number_stays_in_its_row() -> None:
    hidden, weights, bias, targets, _ = example(torch.float32)
    hidden[3, 2] = torch.nan
    losses = softmax_losses(hidden, weights, bias, targets)
    assert losses.isnan().nonzero().flatten().tolist() == [3]


def test_under_autocast_the_loss_is_float32_and_gradients_have_the_type_of_their_inputs() -> None:
    *inputs, targets, factors = example(torch.float32)
    leaves = tuple(x.requires_grad_() for x in inputs)
    with torch.autocast("cpu", torch.bfloat16):
        found = softmax_losses(*leaves, targets)
        expected = cross_entropy(linear(*leaves).float(), targets, reduction="none")
    assert found.dtype == torch.float32
    assert_close(found, expected, rtol=1e-6, atol=1e-6)
    for got, wanted in zip(gradients(found, factors, leaves), gradients(expected, factors, leaves), strict=True):
        assert got.dtype == wanted.dtype == torch.float32
        assert_close(got, wanted, rtol=0.02, atol=0.02 * float(wanted.abs().max()))
