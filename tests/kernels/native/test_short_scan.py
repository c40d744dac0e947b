"""Short sequences that begin with an empty memory: the C++ kernel lets their steps look at each other, without a W."""

from collections.abc import Callable
from itertools import product

import pytest
import torch
from operator_inputs import differentiate, draw, leaves
from torch import Tensor

from fastweights import fast_weight_scan
from fastweights.memory import native
from instruction_sets import TOLERANCES, usable
from pairwise import pairs_first
from random_problems import relative_error

if (problem := native.unavailable()) is not None:
    pytest.skip(problem, allow_module_level=True)

LEVELS = usable()

# b, h, t, k, v: less than a block of steps, whole blocks, a step more; whole vectors and tails; the last two are scans.
SHAPES = [
    (2, 2, 2, 64, 64),
    (1, 3, 15, 33, 35),
    (2, 1, 16, 64, 32),
    (1, 2, 17, 40, 64),
    (1, 2, 64, 64, 64),
    (1, 1, 77, 128, 70),
    (1, 1, 90, 64, 64),
    (1, 2, 16, 16, 16),
]
KINDS = ["no decay", "decay", "decays of zero", "sum"]
CASES = pairs_first(list(product(product(LEVELS, TOLERANCES), SHAPES, KINDS)), tuple)


def problem_of(shape: tuple[int, ...], kind: str) -> dict[str, Tensor]:
    batch, heads, steps, key_dim, value_dim = shape
    tensors = draw(0, batch, heads, steps, key_dim, value_dim, torch.float32, layout="transposed")
    del tensors["weights"]
    if kind in ("no decay", "sum"):
        del tensors["decay"]
    if kind == "decays of zero":
        tensors["decay"][:, :, 1::7] = 0
    if kind == "sum":
        tensors["erase"] = torch.zeros_like(tensors["erase"])
    return tensors


def run(tensors: dict[str, Tensor], backend: str) -> dict[str, Tensor]:
    """Reads, weights and all gradients."""
    inputs = leaves(tensors)
    outputs = fast_weight_scan(**inputs, backend=backend)
    gradients = differentiate(outputs, inputs)
    return {"reads": outputs[0].detach(), "final": outputs[1].detach()} | gradients


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("case", CASES, ids=str)
def test_every_instruction_set_agrees_with_the_oracle(
    case: tuple[tuple[str, torch.dtype], tuple[int, ...], str], use: Callable[[str], None]
) -> None:
    (level, dtype), shape, kind = case
    use(level)
    tensors = problem_of(shape, kind)
    actual = run({name: x.to(dtype) for name, x in tensors.items()}, "native")
    expected = run({name: x.double() for name, x in tensors.items()}, "recurrent")
    tolerance, gradient_tolerance = TOLERANCES[dtype]
    for name, value in expected.items():
        bound = tolerance if name in ("reads", "final") else gradient_tolerance
        assert relative_error(actual[name], value) <= bound, name


@pytest.mark.usefixtures("one_thread")
def test_gradients_of_the_reads_alone_and_of_the_weights_alone() -> None:
    for used, kind in product((0, 1), KINDS[:2]):
        found = []
        for backend in ("native", "recurrent"):
            inputs = leaves(problem_of((1, 2, 40, 64, 48), kind), torch.float64)
            output = fast_weight_scan(**inputs, backend=backend)[used]
            found.append(torch.autograd.grad(output.square().sum(), list(inputs.values()), materialize_grads=True))
        for x, y in zip(*found, strict=True):
            assert relative_error(x, y) <= 1e-12


def test_threads_and_repeats_change_no_bit() -> None:
    tensors, before = problem_of((3, 5, 33, 64, 64), "decay"), torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        expected = run(tensors, "native")
        for repeat in range(12):
            torch.set_num_threads(1 + repeat % 3)
            for name, value in run(tensors, "native").items():
                assert torch.equal(value, expected[name]), name
    finally:
        torch.set_num_threads(before)


@pytest.mark.parametrize("name", ["queries", "keys", "values", "erase", "write", "decay", "gradient"])
@pytest.mark.parametrize("special", [float("nan"), float("inf")])
def test_what_is_not_finite_goes_where_the_recurrence_takes_it(name: str, special: float) -> None:
    tensors = {key: x.double() for key, x in problem_of((2, 1, 40, 64, 33), "decay").items()}
    direction = torch.randn(2, 1, 40, 33, dtype=torch.float64)
    spoilt = direction if name == "gradient" else tensors[name]
    spoilt[1, 0, 21, *[1] * (spoilt.dim() - 3)] = special
    found = []
    for backend in ("native", "recurrent"):
        inputs = leaves(tensors)
        reads, final = fast_weight_scan(**inputs, backend=backend)
        gradients = torch.autograd.grad(reads, list(inputs.values()), direction)
        found.append([reads.detach(), final.detach(), *gradients])
    for x, y in zip(*found, strict=True):
        finite = y.isfinite()
        assert torch.equal(x.isfinite(), finite)
        torch.testing.assert_close(x[finite], y[finite], rtol=1e-9, atol=1e-9)


def test_scores_that_overflow_are_left_to_the_scan() -> None:
    """Lengths of 1e25 make q·k infinite in float32 where W q is not."""
    tensors = problem_of((1, 1, 16, 64, 64), "sum")
    tensors["keys"], tensors["queries"], tensors["values"] = (
        tensors["keys"] * 1e25,
        tensors["queries"] * 1e25,
        tensors["values"] * 1e-30,
    )
    found = fast_weight_scan(**tensors, backend="native")
    expected = fast_weight_scan(**{name: x.double() for name, x in tensors.items()}, backend="recurrent")
    for x, y in zip(found, expected, strict=True):
        assert relative_error(x, y) <= 2e-6
