"""The chunked backend: its backward against finite differences, and chunks that leave no trace in the result."""

from itertools import product

import pytest
import torch
from operator_inputs import differentiate, draw, leaves
from torch import Tensor

from equations import linear_recurrence
from fastweights import backends, fast_weight_scan
from fastweights.memory import chunked
from pairwise import pairs_first
from random_problems import relative_error

pytestmark = pytest.mark.usefixtures("one_thread")

# Steps with k below and above v; with and without decay; from given weights and from none.
SIZES = [(1, 3, 2), (4, 2, 2), (7, 2, 3)]
CONFIGURATIONS = list(product(SIZES, [True, False], [True, False]))
OWN_BACKWARD = [name for name, status in backends().items() if status.available and name != "recurrent"]


def small(sizes: tuple[int, int, int], decays: bool, starts: bool) -> dict[str, Tensor]:
    tensors = leaves(draw(sum(sizes), 1, 2, *sizes))
    absent = {"decay": not decays, "weights": not starts}
    return {name: x for name, x in tensors.items() if not absent.get(name, False)}


# Below, at and above the number of steps: several chunks, the last of them filled up, and one.
CHUNKS = product([1, 3, 4, 5, 64], SIZES, [True, False], [True, False])


@pytest.mark.parametrize("configuration", pairs_first(list(CHUNKS), tuple), ids=str)
def test_gradients_of_chunks_are_those_of_finite_differences(
    configuration: tuple[int, tuple[int, int, int], bool, bool],
) -> None:
    chunk, sizes, decays, starts = configuration
    tensors = small(sizes, decays, starts)
    names = list(tensors)
    zeros = torch.zeros(1, 2, sizes[2], sizes[1], dtype=torch.float64)

    def scan(*given: Tensor) -> tuple[Tensor, Tensor]:
        return chunked.scan(**{"weights": zeros, "decay": None, **dict(zip(names, given, strict=True))}, chunk=chunk)

    assert torch.autograd.gradcheck(scan, list(tensors.values()))


@pytest.mark.parametrize("backend", OWN_BACKWARD)
@pytest.mark.parametrize(("sizes", "decays", "starts"), CONFIGURATIONS)
def test_gradients_of_the_operator_are_those_of_finite_differences(
    backend: str, sizes: tuple[int, int, int], decays: bool, starts: bool
) -> None:
    tensors = small(sizes, decays, starts)
    names = list(tensors)

    def scan(*given: Tensor) -> tuple[Tensor, Tensor]:
        return fast_weight_scan(**dict(zip(names, given, strict=True)), backend=backend)

    assert torch.autograd.gradcheck(scan, list(tensors.values()))


@pytest.mark.parametrize("backend", OWN_BACKWARD)
def test_a_second_derivative_is_refused_and_not_wrong(backend: str) -> None:
    tensors = leaves(draw(1, steps=5))
    reads, _ = fast_weight_scan(**tensors, backend=backend)
    (gradient,) = torch.autograd.grad(reads.square().sum(), tensors["keys"], create_graph=True)
    with pytest.raises(RuntimeError, match=r"once_differentiable|no second derivative"):
        gradient.square().sum().backward()


def test_the_oracle_has_second_derivatives() -> None:
    tensors = leaves(draw(1, 1, 1, 3, 2, 2))
    names = list(tensors)
    assert torch.autograd.gradgradcheck(
        lambda *given: fast_weight_scan(**dict(zip(names, given, strict=True)), backend="recurrent"),
        list(tensors.values()),
    )


@pytest.mark.parametrize("chunk", [1, 2, 16, 32, 64, 67, 100])
def test_the_chunk_length_does_not_show(chunk: int) -> None:
    tensors = draw(2)
    ours, exact = leaves(tensors), leaves(tensors)
    actual, expected = chunked.scan(**ours, chunk=chunk), linear_recurrence(**exact)
    gradients, expected_gradients = differentiate(actual, ours), differentiate(expected, exact)
    for x, y in zip((*actual, *gradients.values()), (*expected, *expected_gradients.values()), strict=True):
        assert relative_error(x.detach(), y.detach()) <= 1e-12


@pytest.mark.parametrize("backend", OWN_BACKWARD)
@pytest.mark.parametrize("smallest", [1e-2, 1e-6, 1e-30])
def test_strong_decay_neither_overflows_nor_loses_digits(backend: str, smallest: float) -> None:
    tensors = draw(3, steps=150)
    # Random powers: within one chunk the product of all decays is far below the smallest float.
    tensors["decay"] = smallest ** torch.rand_like(tensors["decay"])
    ours, exact = leaves(tensors), leaves(tensors)
    actual, expected = fast_weight_scan(**ours, backend=backend), linear_recurrence(**exact)
    gradients, expected_gradients = differentiate(actual, ours), differentiate(expected, exact)
    for x, y in zip((*actual, *gradients.values()), (*expected, *expected_gradients.values()), strict=True):
        assert relative_error(x.detach(), y.detach()) <= 1e-12
