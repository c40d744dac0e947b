"""The operator's contract, for every backend that can run here."""

import pytest
import torch
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from operator_inputs import NAMES, differentiate, draw, leaves

from combinations import examples, usable_backends
from equations import linear_recurrence
from fastweights import backends, fast_weight_scan
from fastweights.memory import BACKENDS, Call, choose_backend
from random_problems import LAYOUTS, relative_error

pytestmark = pytest.mark.usefixtures("one_thread")

EVERY = [
    pytest.param(name, marks=pytest.mark.skipif(not status.available, reason=status.reason))
    for name, status in backends().items()
]
TOLERANCES = {torch.float64: (1e-12, 1e-12), torch.float32: (2e-6, 1e-5), torch.bfloat16: (1e-2, 1e-2)}


def finest(backend: str) -> torch.dtype:
    """The precision in which a backend shows its mathematics best."""
    return torch.float64 if backend in usable_backends(torch.float64) else torch.float32


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
def test_reads_weights_and_all_gradients_agree_with_the_recurrence(backend: str, dtype: torch.dtype) -> None:
    if backend not in usable_backends(dtype):
        pytest.skip(f"{backend} does not serve {dtype}")

    @settings(max_examples=examples(40), phases=[Phase.generate])
    @given(
        sizes=st.fixed_dictionaries(
            {
                "batch": st.sampled_from([2, 1, 3]),
                "heads": st.sampled_from([2, 1, 4]),
                "steps": st.sampled_from([13, 0, 1, 2, 7, 31, 63, 64, 65, 97, 128, 211]),
                "key_dim": st.sampled_from([8, 1, 3, 16, 33]),
                "value_dim": st.sampled_from([5, 1, 2, 8, 40]),
            }
        ),
        layout=st.sampled_from(LAYOUTS),
        absent=st.sets(st.sampled_from(["weights", "decay"])),
        seed=st.integers(0, 2**20),
    )
    def agrees(sizes: dict[str, int], layout: str, absent: set[str], seed: int) -> None:
        tensors = {name: x for name, x in draw(seed, **sizes, dtype=dtype, layout=layout).items() if name not in absent}
        ours, exact = leaves(tensors), leaves(tensors, torch.float64)
        actual = fast_weight_scan(**ours, backend=backend)
        b, h, _, v, k = *tensors["values"].shape, tensors["keys"].shape[-1]
        start = {"weights": torch.zeros(b, h, v, k, dtype=torch.float64)} if "weights" in absent else {}
        expected = linear_recurrence(**start, **exact)
        tolerance, gradient_tolerance = TOLERANCES[dtype]
        assert actual[0].dtype == dtype
        assert actual[1].dtype == torch.promote_types(dtype, torch.float32)
        for x, y in zip(actual, expected, strict=True):
            assert x.shape == y.shape
            assert relative_error(x, y.detach()) <= tolerance
        expected_gradients = differentiate(expected, exact, layout)
        for name, gradient in differentiate(actual, ours, layout).items():
            assert gradient.dtype == ours[name].dtype
            assert relative_error(gradient, expected_gradients[name]) <= gradient_tolerance, name

    agrees()


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("unused", ["reads", "weights"])
def test_gradients_when_only_one_result_is_used(backend: str, unused: str) -> None:
    tensors = draw(3, dtype=finest(backend))
    ours, exact = leaves(tensors), leaves(tensors, torch.float64)
    kept = 1 if unused == "reads" else 0
    asked = [name for name in NAMES if not (unused == "reads" and name == "queries")]
    output = fast_weight_scan(**ours, backend=backend)[kept].square().sum()
    expected = linear_recurrence(**exact)[kept].square().sum()
    for name, x, y in zip(
        asked,
        torch.autograd.grad(output, [ours[name] for name in asked]),
        torch.autograd.grad(expected, [exact[name] for name in asked]),
        strict=True,
    ):
        assert relative_error(x, y) <= TOLERANCES[finest(backend)][1], name


@pytest.mark.parametrize("backend", EVERY)
@pytest.mark.parametrize("wanted", NAMES)
def test_a_gradient_can_be_asked_of_one_input_alone(backend: str, wanted: str) -> None:
    tensors = draw(4, dtype=finest(backend))
    tensors[wanted].requires_grad_()
    exact = leaves(tensors, torch.float64)
    reads, weights = fast_weight_scan(**tensors, backend=backend)
    (gradient,) = torch.autograd.grad(reads.sum() + weights.square().sum(), tensors[wanted])
    reads, weights = linear_recurrence(**exact)
    (expected,) = torch.autograd.grad(reads.sum() + weights.square().sum(), exact[wanted])
    assert relative_error(gradient, expected) <= TOLERANCES[finest(backend)][1]


@pytest.mark.parametrize("backend", EVERY)
def test_absent_weights_are_zeros_and_absent_decay_is_ones(backend: str) -> None:
    tensors = draw(5, dtype=finest(backend))
    whole = {name: tensors[name] for name in NAMES[:5]}
    zeros, ones = torch.zeros_like(tensors["weights"]), torch.ones_like(tensors["decay"])
    short = fast_weight_scan(**whole, backend=backend)
    full = fast_weight_scan(**whole, weights=zeros, decay=ones, backend=backend)
    for x, y in zip(short, full, strict=True):
        assert relative_error(x, y) <= 45 * torch.finfo(x.dtype).eps


@pytest.mark.parametrize("backend", EVERY)
def test_inputs_are_left_as_they_were(backend: str) -> None:
    tensors = draw(6, dtype=finest(backend))
    before = {name: x.clone() for name, x in tensors.items()}
    reads, weights = fast_weight_scan(**leaves(tensors), backend=backend)
    (reads.sum() + weights.sum()).backward()
    assert all(torch.equal(tensors[name], x) for name, x in before.items())


@pytest.mark.parametrize("backend", EVERY)
def test_no_steps_read_nothing_and_leave_the_weights(backend: str) -> None:
    tensors = draw(7, steps=0, dtype=finest(backend))
    reads, weights = fast_weight_scan(**tensors, backend=backend)
    assert reads.shape == tensors["values"].shape
    assert torch.equal(weights, tensors["weights"])


@pytest.mark.parametrize("backend", EVERY)
def test_the_future_does_not_change_the_past(backend: str) -> None:
    tensors = draw(8, steps=130, dtype=finest(backend))
    reads, _ = fast_weight_scan(**tensors, backend=backend)
    changed = {name: x.clone() for name, x in tensors.items()}
    for name in NAMES[:5]:
        changed[name][:, :, 100:] *= -3.0
    others, _ = fast_weight_scan(**changed, backend=backend)
    assert torch.equal(reads[:, :, :100], others[:, :, :100])
    assert not torch.equal(reads[:, :, 100:], others[:, :, 100:])


@pytest.mark.parametrize("backend", EVERY)
def test_autocast_leaves_the_precision_of_the_memory_alone(backend: str) -> None:
    tensors = draw(9, dtype=torch.float32)
    expected = fast_weight_scan(**tensors, backend=backend)
    with torch.autocast("cpu", torch.bfloat16):
        actual = fast_weight_scan(**tensors, backend=backend)
    assert all(torch.equal(x, y) for x, y in zip(actual, expected, strict=True))


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("steps", [0, 1, 2, 67])
def test_auto_is_one_of_the_backends_that_can_serve(dtype: torch.dtype, steps: int) -> None:
    tensors = draw(10, steps=steps, dtype=dtype)
    chosen = choose_backend("auto", Call.of(tensors["keys"], tensors["decay"], None, differentiable=False))
    assert chosen in usable_backends(dtype)
    automatic, named = (fast_weight_scan(**tensors, backend=name) for name in ("auto", chosen))
    assert all(torch.equal(x, y) for x, y in zip(automatic, named, strict=True))


def test_every_backend_says_whether_it_can_run_and_otherwise_why_not() -> None:
    assert list(backends()) == list(BACKENDS)
    assert backends()["chunked"].available
    assert backends()["recurrent"].available
    assert all(status.available == (status.reason == "") for status in backends().values())
