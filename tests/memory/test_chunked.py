"""The chunked backend: its backward against finite differences, and chunks that leave no trace in the result."""

from itertools import product

import pytest
import torch
from operator_inputs import differentiate, draw, leaves
from torch import Tensor
from torch.testing import assert_close

from combinations import usable_backends
from equations import linear_recurrence
from fastweights import fast_weight_scan
from fastweights.memory import chunked
from pairwise import pairs_first
from random_problems import relative_error

pytestmark = pytest.mark.usefixtures("one_thread")

# Steps with k below and above v; with and without decay; from given weights and from none.
SIZES = [(1, 3, 2), (4, 2, 2), (7, 2, 3)]
CONFIGURATIONS = list(product(SIZES, [True, False], [True, False]))
OWN_BACKWARD = [name for name in usable_backends(torch.float64) if name != "recurrent"]


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

    # Along random directions here; component by component for the whole operator below.
    assert torch.autograd.gradcheck(scan, list(tensors.values()), fast_mode=True)


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


def penalised(backend: str, penalty: bool) -> dict[str, Tensor]:
    """Gradients of a loss that may contain the gradient of the keys; the loss itself needs none of it."""
    tensors = leaves(draw(1, steps=70))
    reads, weights = fast_weight_scan(**tensors, backend=backend)
    loss = reads.sum() + weights.sum()
    (gradient,) = torch.autograd.grad(loss, tensors["keys"], create_graph=penalty, retain_graph=True)
    total = loss + gradient.square().sum() if penalty else loss
    return dict(zip(tensors, torch.autograd.grad(total, list(tensors.values())), strict=True))


def test_a_gradient_penalty_is_right_in_chunks() -> None:
    plain, expected, found = penalised("recurrent", False), penalised("recurrent", True), penalised("chunked", True)
    for name in expected:
        assert_close(found[name], expected[name], rtol=1e-9, atol=1e-11)
        assert not torch.allclose(expected[name], plain[name], rtol=1e-3)


@pytest.mark.skipif("native" not in OWN_BACKWARD, reason="native is not available")
def test_a_gradient_penalty_is_refused_by_the_native_backend() -> None:
    with pytest.raises(RuntimeError, match="no second derivative; possible: backend='recurrent'"):
        penalised("native", True)


def test_many_gradients_at_once() -> None:
    tensors = leaves(draw(1, steps=5))
    vectors = torch.randn(3, *tensors["values"].shape, dtype=torch.float64)

    def gradients(backend: str) -> Tensor:
        reads, _ = fast_weight_scan(**tensors, backend=backend)
        return torch.autograd.grad(reads, tensors["keys"], vectors, is_grads_batched=True)[0]

    assert_close(gradients("chunked"), gradients("recurrent"), rtol=1e-10, atol=1e-12)
    if "native" in OWN_BACKWARD:
        with pytest.raises(RuntimeError, match="no gradients for many vectors at once; possible: backend='recurrent'"):
            gradients("native")


@pytest.mark.parametrize("empty", ["batch", "heads", "steps", "keys", "values"])
def test_nothing_is_as_good_as_something(empty: str) -> None:
    sizes = {"batch": 2, "heads": 3, "steps": 5, "keys": 4, "values": 6} | {empty: 0}
    b, h, t, k, v = sizes.values()
    queries, keys, values = (torch.randn(b, h, t, d, requires_grad=True) for d in (k, k, v))
    erase = torch.rand(b, h, t)
    reads, weights = fast_weight_scan(queries, keys, values, erase, erase, backend="chunked")
    assert reads.shape == (b, h, t, v)
    assert weights.shape == (b, h, v, k)
    assert not reads.any()
    (reads.sum() + weights.sum()).backward()
    assert values.grad is not None


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


@pytest.mark.parametrize("backend", ["chunked", "native"])
def test_what_erasing_leaves_of_a_gradient_is_exact_to_the_size_of_what_was_erased(backend: str) -> None:
    """docs/math.md#chunks: the first key, of one component, erases W_0 but for a hundredth; a chunk subtracts."""
    if backend not in usable_backends(torch.float32):
        pytest.skip(f"{backend} cannot run here")
    tensors = draw(1548, 1, 1, 13, 1, 1, torch.float32)
    del tensors["decay"]
    ours, exact = leaves(tensors), leaves(tensors, torch.float64)
    found = differentiate(fast_weight_scan(**ours, backend=backend), ours)
    expected = differentiate(linear_recurrence(**exact), exact)
    assert (1 - tensors["erase"].flatten()[0]).abs() < 0.05
    error = (found["weights"] - expected["weights"]).abs().max()
    assert error <= 2e-6, "of a gradient whose parts have about the size of 1"
    for name in set(found) - {"weights"}:
        assert relative_error(found[name], expected[name]) <= 1e-5, name


def test_filling_up_a_chunk_spreads_no_nan() -> None:
    ones, key = torch.ones(1, 1, 1), torch.tensor([[[[1.0, torch.nan]]]])
    lookup = torch.ones(1, 1, 1, 2)
    for backend in usable_backends(torch.float32):
        _, final = fast_weight_scan(
            lookup, key, torch.ones(1, 1, 1, 1), ones, ones, torch.ones(1, 1, 1, 2), None, lookup, backend=backend
        )
        assert final.flatten()[0] == 0, backend
        assert final.flatten()[1].isnan(), backend
