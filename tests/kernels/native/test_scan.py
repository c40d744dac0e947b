"""The C++ kernel: every instruction set against the oracle, and what holds whatever the threads."""

import functools
from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import pytest
import torch
from operator_inputs import differentiate, draw, leaves
from torch import Tensor

from fastweights import fast_weight_scan
from fastweights.kernels.native import scan as kernel
from fastweights.memory import chunked, native, recurrent
from instruction_sets import TOLERANCES, usable
from pairwise import pairs_first
from random_problems import relative_error

if (problem := native.unavailable()) is not None:
    pytest.skip(problem, allow_module_level=True)

LEVELS = usable()

# b, h, t, k, v: whole vectors and tails, few and many heads, one chunk, kept states, a tile more.
SHAPES = [
    (1, 1, 0, 3, 4),
    (2, 3, 1, 64, 64),
    (1, 2, 2, 17, 5),
    (1, 1, 16, 64, 1),
    (2, 1, 17, 1, 17),
    (1, 3, 31, 3, 3),
    (1, 1, 127, 100, 33),
    (1, 2, 128, 16, 130),
    (3, 3, 129, 33, 16),
    (1, 1, 149, 384, 8),
    (1, 9, 257, 8, 100),
    (1, 8, 300, 64, 64),
]


@pytest.fixture
def threads() -> Iterator[None]:
    """Gives the number of threads back as it was."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


KINDS = ["no decay", "decay", "channels", "lookups", "channels and lookups", "lookups without decay"]


CASES = pairs_first(list(product(product(LEVELS, TOLERANCES), SHAPES, KINDS)), tuple)
"""Every kind with every instruction set and precision, and every shape with each of these."""


def problem_of(shape: tuple[int, ...], dtype: torch.dtype = torch.float32, kind: str = "decay") -> dict[str, Tensor]:
    batch, heads, steps, key_dim, value_dim = shape
    channels, lookups = "channels" in kind, "lookups" in kind
    tensors = draw(0, batch, heads, steps, key_dim, value_dim, dtype, channels=channels, lookups=lookups)
    if kind not in ("no decay", "lookups without decay"):
        # A memory that is emptied: nothing may be divided by the decay.
        tensors["decay"][:, :, 5::50] = 0
    else:
        del tensors["decay"]
    return tensors


def run(tensors: dict[str, Tensor], scan: object = native.scan) -> dict[str, Tensor]:
    """Reads, weights and all gradients."""
    inputs = leaves(tensors)
    outputs = scan(**inputs)  # type: ignore[operator]
    gradients = differentiate(outputs, inputs)
    return {"reads": outputs[0].detach(), "final": outputs[1].detach()} | gradients


@functools.cache
def by_the_oracle(shape: tuple[int, ...], kind: str) -> dict[str, Tensor]:
    """For numbers that both float32 and float64 can hold."""
    return run({name: x.double() for name, x in problem_of(shape, kind=kind).items()}, recurrent.scan)


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_instruction_set_agrees_with_the_oracle(
    case: tuple[tuple[str, torch.dtype], tuple[int, ...], str], use: Callable[[str], None]
) -> None:
    (level, dtype), shape, kind = case
    use(level)
    actual = run({name: x.to(dtype) for name, x in problem_of(shape, kind=kind).items()})
    expected = by_the_oracle(shape, kind)
    tolerance, gradient_tolerance = TOLERANCES[dtype]
    for name, value in expected.items():
        bound = tolerance if name in ("reads", "final") else gradient_tolerance
        assert actual[name].dtype == dtype
        assert relative_error(actual[name], value) <= bound, name


@pytest.mark.parametrize("shape", [(1, 1, 400, 24, 70), (2, 3, 150, 40, 20), (1, 8, 1, 64, 64)], ids=str)
@pytest.mark.parametrize("kind", ["decay", "channels and lookups"])
def test_threads_and_repeats_change_no_bit(threads: None, shape: tuple[int, ...], kind: str) -> None:
    tensors = problem_of(shape, kind=kind)
    torch.set_num_threads(1)
    expected = run(tensors)
    for repeat in range(20):
        torch.set_num_threads(1 + repeat % 3)
        for name, value in run(tensors).items():
            assert torch.equal(value, expected[name]), name


def test_a_step_that_expands_is_followed_as_well() -> None:
    tensors = problem_of((1, 2, 60, 8, 5), kind="no decay")
    tensors["erase"] = tensors["erase"] + 2  # |1 - a k·k| up to 3: W grows by many orders of magnitude
    expected = run({name: x.double() for name, x in tensors.items()}, recurrent.scan)
    assert expected["final"].abs().max() > 1e3
    for name, value in run(tensors).items():
        assert relative_error(value, expected[name]) <= 1e-5, name


def test_a_million_steps_stay_within_a_millionth_of_float64() -> None:
    single = exact = torch.zeros(1, 2, 4, 8)
    errors = []
    for segment in range(100):
        generator = torch.Generator().manual_seed(segment)
        queries, keys = (torch.rand(1, 2, 10_000, 8, generator=generator) ** 4 for _ in range(2))
        queries, keys = (x / x.sum(-1, keepdim=True) for x in (queries, keys))
        values = torch.randn(1, 2, 10_000, 4, generator=generator)
        strengths = torch.rand(1, 2, 10_000, generator=generator)
        inputs = (queries, keys, values, strengths, strengths)
        reads, single = native.scan(*inputs, single, None)
        expected, exact = native.scan(*(x.double() for x in inputs), exact.double(), None)
        errors.append(max(relative_error(reads, expected), relative_error(single, exact)))
    assert max(errors) <= 1e-6
    assert max(errors[-10:]) <= 1.5 * max(errors[:10])


SPOILT = ["queries", "keys", "values", "erase", "write", "weights", "decay", "lookups"]


@pytest.mark.parametrize("name", SPOILT)
@pytest.mark.parametrize("special", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("value_dim", [3, 20])
@pytest.mark.parametrize("kind", ["decay", "channels and lookups"])
@pytest.mark.parametrize("backend", [native, chunked], ids=["native", "chunked"])
def test_nan_and_infinity_pass_through_as_in_the_oracle(
    name: str, special: float, value_dim: int, kind: str, backend: Any
) -> None:
    tensors = problem_of((2, 2, 40, 19, value_dim), kind=kind)
    if name not in tensors:
        pytest.skip(f"there are no {name}")
    with torch.no_grad():
        tensors[name][1, 0, 2, *[1] * (tensors[name].dim() - 3)] = special
        actual = backend.scan(**tensors)
        expected = recurrent.scan(**tensors)
    for x, y in zip(actual, expected, strict=True):
        assert torch.equal(x.isnan(), y.isnan())
        finite = y.isfinite()
        assert torch.equal(x[~finite].nan_to_num(), y[~finite].nan_to_num())
        torch.testing.assert_close(x[finite], y[finite], rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", [*SPOILT, "gradient"])
@pytest.mark.parametrize("special", [float("nan"), float("inf")])
@pytest.mark.parametrize("kind", ["no decay", "decay", "channels and lookups", "channels"])
@pytest.mark.parametrize("backend", [native, chunked], ids=["native", "chunked"])
def test_gradients_are_not_finite_where_those_of_the_oracle_are_not(
    name: str, special: float, kind: str, backend: Any
) -> None:
    tensors = problem_of((2, 1, 40, 19, 6), torch.float64, kind)
    if name not in (*tensors, "gradient"):
        pytest.skip(f"there are no {name}")
    direction = torch.randn(2, 1, 40, 6, dtype=torch.float64)
    spoilt = direction if name == "gradient" else tensors[name]
    spoilt[1, 0, 2 if name == "weights" else 21, *[1] * (spoilt.dim() - 3)] = special
    found = []
    for scan in (backend.scan, recurrent.scan):
        inputs = leaves(tensors)
        reads, _ = scan(**inputs)
        reads.backward(direction)
        found.append({argument: x.grad for argument, x in inputs.items()})
    for argument, expected in found[1].items():
        finite = expected.isfinite()
        assert torch.equal(found[0][argument].isfinite(), finite), argument
        torch.testing.assert_close(found[0][argument][finite], expected[finite], rtol=1e-9, atol=1e-9)


def test_only_the_gradients_asked_for_may_be_given() -> None:
    """Expanded gradients (as those of a sum) and absent ones: of the reads alone, of the weights alone."""
    tensors = problem_of((1, 2, 20, 9, 4), torch.float64)
    for used in (0, 1):
        inputs, exact = leaves(tensors), leaves(tensors)
        native.scan(*inputs.values())[used].sum().backward()
        recurrent.scan(*exact.values())[used].sum().backward()
        for name, x in inputs.items():
            wanted = exact[name].grad
            assert relative_error(x.grad, torch.zeros_like(x) if wanted is None else wanted) <= 1e-12, name


@pytest.mark.parametrize("sizes", [(0, 2, 3, 4, 5), (2, 0, 3, 4, 5), (2, 2, 3, 0, 5), (2, 2, 3, 4, 0)], ids=str)
@pytest.mark.parametrize("kind", ["decay", "channels and lookups"])
def test_empty_dimensions_give_zeros(sizes: tuple[int, ...], kind: str) -> None:
    for name, value in run(problem_of(sizes, kind=kind)).items():
        assert torch.equal(value, torch.zeros_like(value)), name


def test_nothing_is_kept_when_no_gradient_is_needed() -> None:
    tensors = problem_of((1, 1, 300, 8, 8))
    assert [x.numel() for x in kernel.scan_forward(*tensors.values(), None, False)[2:]] == [0, 0]
    retrieved, kept = kernel.scan_forward(*tensors.values(), None, True)[2:]
    assert retrieved.shape == (1, 1, 300, 8)
    assert kept.shape == (1, 1, 2, 8, 8)
    half = {name: x if name == "weights" else x[:, :, : kernel.CHECKPOINT_EVERY] for name, x in tensors.items()}
    assert torch.equal(kept[:, :, 0], native.scan(*half.values())[1])


def test_the_weights_stay_float32_under_autocast() -> None:
    tensors = problem_of((1, 2, 40, 8, 8))
    with torch.autocast("cpu", torch.bfloat16):
        reads, weights = fast_weight_scan(**tensors, backend="native")
    expected = fast_weight_scan(**tensors, backend="native")
    assert torch.equal(reads, expected[0])
    assert torch.equal(weights, expected[1])
