"""Decay per channel and lookups, for every backend that can run here: the equation, splits, and what they contain."""

from itertools import product

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from operator_inputs import differentiate, draw, leaves
from torch import Tensor

from combinations import usable_backends
from equations import linear_recurrence
from fastweights import fast_weight_scan
from random_problems import LAYOUTS, relative_error

pytestmark = pytest.mark.usefixtures("one_thread")

EVERY = usable_backends(torch.float64)
TOLERANCES = {torch.float64: (1e-12, 1e-12), torch.float32: (2e-6, 1e-5), torch.bfloat16: (1e-2, 1e-2)}
SIZES = st.fixed_dictionaries(
    {
        "batch": st.sampled_from([1, 2]),
        "heads": st.sampled_from([1, 2]),
        "steps": st.sampled_from([7, 0, 1, 2, 3, 15, 16, 17, 31, 33, 47]),
        "key_dim": st.sampled_from([4, 1, 3, 8, 17]),
        "value_dim": st.sampled_from([3, 1, 5, 9]),
    }
)


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_reads_weights_and_all_gradients_agree_with_the_recurrence(backend: str, dtype: torch.dtype) -> None:
    @settings(max_examples=50, phases=[Phase.generate])
    @given(
        sizes=SIZES,
        kind=st.sampled_from([(True, False), (True, True), (False, True)]),
        layout=st.sampled_from(LAYOUTS),
        absent=st.sets(st.sampled_from(["weights", "decay"])),
        seed=st.integers(0, 2**20),
    )
    def agrees(sizes: dict[str, int], kind: tuple[bool, bool], layout: str, absent: set[str], seed: int) -> None:
        channels, lookups = kind
        tensors = draw(seed, **sizes, dtype=dtype, layout=layout, channels=channels, lookups=lookups)
        absent = absent - {"decay"} if not lookups else absent
        tensors = {name: x for name, x in tensors.items() if name not in absent}
        ours, exact = leaves(tensors), leaves(tensors, torch.float64)
        actual = fast_weight_scan(**ours, backend=backend)
        b, h, _, v, k = *tensors["values"].shape, tensors["keys"].shape[-1]
        start = {"weights": torch.zeros(b, h, v, k, dtype=torch.float64)} if "weights" in absent else {}
        expected = linear_recurrence(**start, **exact)
        tolerance, gradient_tolerance = TOLERANCES[dtype]
        assert actual[0].dtype == dtype
        for x, y in zip(actual, expected, strict=True):
            assert x.shape == y.shape
            assert relative_error(x, y.detach()) <= tolerance
        expected_gradients = differentiate(expected, exact, layout, dtype)
        for name, gradient in differentiate(actual, ours, layout, dtype).items():
            assert gradient.dtype == ours[name].dtype
            assert relative_error(gradient, expected_gradients[name]) <= gradient_tolerance, name

    agrees()


def assert_agrees(tensors: dict[str, Tensor], backend: str, dtype: torch.dtype) -> None:
    """Reads, final weights and all gradients are those of the recurrence in float64."""
    ours, exact = leaves(tensors), leaves(tensors, torch.float64)
    actual, expected = fast_weight_scan(**ours, backend=backend), linear_recurrence(**exact)
    gradients, expected_gradients = differentiate(actual, ours), differentiate(expected, exact)
    tolerance, gradient_tolerance = TOLERANCES[dtype]
    for x, y in zip(actual, expected, strict=True):
        assert relative_error(x.detach(), y.detach()) <= tolerance
    for name, gradient in gradients.items():
        assert relative_error(gradient, expected_gradients[name]) <= gradient_tolerance, name


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("smallest", [1e-2, 1e-30, 0.0])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_strong_decay_neither_overflows_nor_loses_digits(backend: str, smallest: float, dtype: torch.dtype) -> None:
    tensors = draw(3, steps=70, dtype=dtype, channels=True, lookups=True)
    # Random powers: within one chunk the product of all decays is far below the smallest float. Or a third of all zero.
    uniform = torch.rand_like(tensors["decay"])
    tensors["decay"] = smallest**uniform if smallest else torch.where(uniform < 1 / 3, 0.0, tensors["decay"])
    assert_agrees(tensors, backend, dtype)


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("kind", [(False, False), (True, False), (True, True)], ids=str)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_numbers_on_the_edge_of_what_is_allowed(backend: str, kind: tuple[bool, bool], dtype: torch.dtype) -> None:
    """Writes that erase nothing, all or twice of it; decays of 0, next to 0 or 1; one key ten times in a row."""
    tensors = draw(5, steps=50, dtype=dtype, channels=kind[0], lookups=kind[1])

    def any_of(name: str, *numbers: float) -> None:
        chosen = torch.randint(len(numbers), tensors[name].shape)
        tensors[name] = torch.tensor(numbers, dtype=dtype)[chosen]

    any_of("erase", *((0.0, 0.5, 1.0) if kind[1] else (0.0, 1.0, 1.999, 2.0)))
    any_of("write", 0.0, 0.5, 1.0)
    any_of("decay", 0.0, 1e-45, 1e-38, 1e-20, 1e-3, 1 - 1e-6, 1.0, 1.0, 1.0, 1.0)
    tensors["keys"][:, :, 20:30] = tensors["keys"][:, :, 20:21]
    assert_agrees(tensors, backend, dtype)


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("channels", [False, True], ids=["per head", "per channel"])
@pytest.mark.parametrize("number", [1e-45, -1e-45, -0.5])
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_decays_that_have_no_logarithm(backend: str, channels: bool, number: float, dtype: torch.dtype) -> None:
    """The smallest float32, whose reciprocal is none, and negative numbers, for which the equation holds as well."""
    tensors = draw(7, steps=70, dtype=dtype, channels=channels)
    tensors["decay"] = torch.where(torch.rand_like(tensors["decay"]) < 1 / 4, number, tensors["decay"])
    assert_agrees(tensors, backend, dtype)


# Steps, k and v; decay none, per head or per channel; lookups; from given weights or none: 72 for each backend.
CONFIGURATIONS = list(
    product([(1, 3, 2), (2, 1, 1), (4, 2, 2), (3, 2, 3), (7, 2, 1), (5, 3, 2)], "nhc", [False, True], [False, True])
)


@pytest.mark.parametrize("backend", [name for name in EVERY if name != "recurrent"])
@pytest.mark.parametrize(("sizes", "decay", "lookups", "starts"), CONFIGURATIONS)
def test_gradients_are_those_of_finite_differences(
    backend: str, sizes: tuple[int, int, int], decay: str, lookups: bool, starts: bool
) -> None:
    tensors = leaves(draw(sum(sizes), 1, 1, *sizes, channels=decay == "c", lookups=lookups))
    absent = {"decay": decay == "n", "weights": not starts}
    tensors = {name: x for name, x in tensors.items() if not absent.get(name, False)}
    names = list(tensors)

    def scan(*given: Tensor) -> tuple[Tensor, ...]:
        return fast_weight_scan(**dict(zip(names, given, strict=True)), backend=backend)

    assert torch.autograd.gradcheck(scan, list(tensors.values()))


@pytest.mark.parametrize("backend", EVERY)
def test_the_same_decay_for_all_channels_is_that_of_the_head_and_the_keys_are_the_lookups(backend: str) -> None:
    tensors = draw(1, steps=37)
    expected = fast_weight_scan(**tensors, backend=backend)
    spread = tensors["decay"][..., None].expand(tensors["keys"].shape)
    for changed in ({"decay": spread}, {"lookups": tensors["keys"]}, {"decay": spread, "lookups": tensors["keys"]}):
        for x, y in zip(fast_weight_scan(**tensors | changed, backend=backend), expected, strict=True):
            assert relative_error(x, y) <= 1e-14


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("cut", [0, 1, 16, 20, 41])
def test_two_segments_are_one(backend: str, cut: int) -> None:
    tensors = draw(2, steps=41, channels=True, lookups=True)
    reads, final = fast_weight_scan(**tensors, backend=backend)
    weights, parts = tensors.pop("weights"), []
    for segment in (slice(0, cut), slice(cut, None)):
        part = {name: x[:, :, segment] for name, x in tensors.items()}
        read, weights = fast_weight_scan(**part, weights=weights, backend=backend)
        parts.append(read)
    assert relative_error(torch.cat(parts, 2), reads) <= 1e-14
    assert relative_error(weights, final) <= 1e-14


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("wanted", ["decay", "lookups", "keys"])
def test_a_gradient_can_be_asked_of_one_input_alone(backend: str, wanted: str) -> None:
    tensors = draw(4, steps=20, channels=True, lookups=True)
    tensors[wanted].requires_grad_()
    exact = leaves(tensors)
    reads, weights = fast_weight_scan(**tensors, backend=backend)
    (gradient,) = torch.autograd.grad(reads.sum() + weights.square().sum(), tensors[wanted])
    reads, weights = linear_recurrence(**exact)
    (expected,) = torch.autograd.grad(reads.sum() + weights.square().sum(), exact[wanted])
    assert relative_error(gradient, expected) <= 1e-12


@pytest.mark.parametrize("backend", EVERY)
def test_a_decay_of_zero_empties_its_channels_and_nothing_else(backend: str) -> None:
    """By hand: W = [1 2], g = (0, 1), k = (1, 0), a = 0, b v = 5: the first column is emptied, then written."""
    weights = torch.tensor([[[[1.0, 2.0]]]])
    key, decay = torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[[[0.0, 1.0]]]])
    one = torch.ones(1, 1, 1)
    read, after = fast_weight_scan(
        torch.ones(1, 1, 1, 2), key, 5 * one[..., None], 0 * one, one, weights, decay, backend=backend
    )
    assert after.flatten().tolist() == [5.0, 2.0]
    assert read.item() == 7.0


@pytest.mark.parametrize("backend", EVERY)
def test_a_lookup_decides_what_is_erased_and_the_key_where(backend: str) -> None:
    """By hand: W = [1 2], e = (0, 1) retrieves 2, k = (1, 0) takes it from the first column: 1 + (3 - 2) = 2."""
    weights, one = torch.tensor([[[[1.0, 2.0]]]]), torch.ones(1, 1, 1)
    key, lookup = torch.tensor([[[[1.0, 0.0]]]]), torch.tensor([[[[0.0, 1.0]]]])
    _, after = fast_weight_scan(key, key, 3 * one[..., None], one, one, weights, lookups=lookup, backend=backend)
    assert after.flatten().tolist() == [2.0, 2.0]
