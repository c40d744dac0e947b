"""The kernels in Triton's interpreter against the equation in float64: reads, weights and every gradient."""

import pytest
import torch
from drawn_scans import Scan, assert_agrees, drawn, inputs_of, relative_to_largest
from operator_inputs import differentiate, leaves
from torch import Tensor

from fastweights import fast_weight_scan
from fastweights.kernels.triton import scan as kernels

pytestmark = pytest.mark.usefixtures("one_thread")

ORDINARY, EVERY = 40, 320


@pytest.mark.parametrize("seed", range(ORDINARY))
def test_the_kernels_agree_with_the_equation(seed: int) -> None:
    assert_agrees(drawn(seed))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(ORDINARY, EVERY))
def test_the_kernels_agree_with_the_equation_in_many_more_cases(seed: int) -> None:
    assert_agrees(drawn(seed))


def problem(steps: int = 35, **changes: object) -> Scan:
    given = {"key_dim": 5, "value_dim": 3, "dtype": torch.float32, "layout": "contiguous", "decay": "head"}
    return Scan(**({"seed": 0, "batch": 1, "heads": 2, "steps": steps, "starts_empty": False} | given | changes))


def run(tensors: dict[str, Tensor]) -> tuple[tuple[Tensor, ...], dict[str, Tensor]]:
    ours = leaves(tensors)
    results = fast_weight_scan(**ours, backend="triton")
    return results, differentiate(results, ours)


def test_products_by_tensor_cores_have_ten_binary_digits() -> None:
    tensors = inputs_of(problem())
    expected, exact = fast_weight_scan(**leaves(tensors, torch.float64), backend="recurrent"), run(tensors)[0]
    torch.set_float32_matmul_precision("high")
    try:
        rounded, gradients = run(tensors)
    finally:
        torch.set_float32_matmul_precision("highest")
    assert 2e-5 < relative_to_largest(rounded[0], expected[0]) < 5e-3
    assert relative_to_largest(exact[0], expected[0]) < 2e-6
    assert all(x.isfinite().all() for x in gradients.values())


def test_two_segments_are_one() -> None:
    tensors = inputs_of(problem(steps=70))
    reads, weights = fast_weight_scan(**tensors, backend="triton")
    first = {name: x if name == "weights" else x[:, :, :41] for name, x in tensors.items()}
    second = {name: x[:, :, 41:] for name, x in tensors.items() if name != "weights"}
    early, between = fast_weight_scan(**first, backend="triton")
    late, final = fast_weight_scan(**second, weights=between, backend="triton")
    torch.testing.assert_close(torch.cat([early, late], 2), reads, rtol=0, atol=2e-6)
    torch.testing.assert_close(final, weights, rtol=0, atol=2e-6)


def test_the_future_changes_no_bit_of_the_past() -> None:
    tensors = inputs_of(problem(steps=40))
    reads, _ = fast_weight_scan(**tensors, backend="triton")
    for name in ("queries", "keys", "values", "erase", "write", "decay"):
        tensors[name] = tensors[name].clone()
        tensors[name][:, :, 20:] = tensors[name][:, :, 20:].flip(2)
    changed, _ = fast_weight_scan(**tensors, backend="triton")
    assert torch.equal(reads[:, :, :20], changed[:, :, :20])
    assert not torch.equal(reads[:, :, 20:], changed[:, :, 20:])


def test_a_padded_step_changes_nothing_and_has_no_gradient() -> None:
    tensors = inputs_of(problem(steps=37))
    padded = {name: x.clone() for name, x in tensors.items()}
    for name in ("keys", "values", "erase", "write"):
        padded[name][:, :, 30:] = 0.0
    padded["decay"][:, :, 30:] = 1.0
    short = {name: x if name == "weights" else x[:, :, :30] for name, x in tensors.items()}
    (_, weights), (_, expected) = run(padded)[0], run(short)[0]
    torch.testing.assert_close(weights, expected, rtol=0, atol=1e-6)


def test_a_decay_of_zero_forgets_everything_exactly() -> None:
    tensors = inputs_of(problem(steps=40))
    tensors["decay"][:, :, 21] = 0.0
    _, gradients = run(tensors)
    late = {name: x[:, :, 21:] for name, x in tensors.items() if name not in ("weights", "decay")}
    assert (gradients["weights"] != 0).any(), "reads before the boundary see the first weights"
    reads, _ = fast_weight_scan(**tensors, backend="triton")
    decay = tensors["decay"][:, :, 21:].clone()
    alone, _ = fast_weight_scan(**late, decay=decay, backend="triton")
    torch.testing.assert_close(reads[:, :, 21:], alone, rtol=0, atol=2e-6)


def test_the_same_call_gives_the_same_bits() -> None:
    tensors = inputs_of(problem(steps=33, decay="zeros"))
    (reads, weights), gradients = run(tensors)
    (again, final), found = run(tensors)
    assert torch.equal(reads, again)
    assert torch.equal(weights, final)
    assert all(torch.equal(gradients[name], found[name]) for name in gradients)


def test_only_what_is_asked_for_is_differentiated() -> None:
    tensors = inputs_of(problem())
    tensors["keys"].requires_grad_()
    _, weights = fast_weight_scan(**tensors, backend="triton")
    (alone,) = torch.autograd.grad(weights.sum(), tensors["keys"])
    everything = leaves({name: x.detach() for name, x in tensors.items()})
    _, weights = fast_weight_scan(**everything, backend="triton")
    (expected,) = torch.autograd.grad(weights.sum(), everything["keys"])
    assert torch.equal(alone, expected)


def test_second_derivatives_are_refused() -> None:
    ours = leaves(inputs_of(problem(steps=3)))
    reads, _ = fast_weight_scan(**ours, backend="triton")
    (gradient,) = torch.autograd.grad(reads.square().sum(), ours["keys"], create_graph=True)
    with pytest.raises(RuntimeError, match="no second derivatives; possible: backend='recurrent'"):
        torch.autograd.grad(gradient.sum(), ours["keys"])


@pytest.mark.parametrize("steps", [0, 3])
def test_sizes_of_nothing(steps: int) -> None:
    for sizes in ({"value_dim": 0}, {"key_dim": 0}, {"batch": 0}, {}):
        scan = problem(steps, **sizes)
        if sizes or not steps:
            results, gradients = run(inputs_of(scan))
            expected = fast_weight_scan(**inputs_of(scan), backend="recurrent")
            for x, y in zip(results, expected, strict=True):
                torch.testing.assert_close(x, y, rtol=0, atol=0)
            assert all(gradients[name].shape == x.shape for name, x in inputs_of(scan).items())


def test_torch_finds_no_fault_with_the_operators() -> None:
    tensors = inputs_of(problem(steps=3))
    names = ("queries", "keys", "values", "erase", "write", "weights", "decay")
    arguments = [tensors[name].requires_grad_() for name in names]
    # Reads and weights alone are differentiable; the other results are for the backward pass.
    torch.library.opcheck(kernels.triton_scan, arguments, test_utils=("test_schema", "test_faketensor"))
