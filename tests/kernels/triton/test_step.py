"""A single step in its own kernel."""

import pytest
import torch
from drawn_scans import TOLERANCES, drawn, inputs_of, relative_to_largest

from fastweights import fast_weight_scan
from fastweights.kernels.triton import step as kernels


@pytest.mark.parametrize("seed", range(24))
def test_a_step_agrees_with_the_equation(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    scan = drawn(seed)
    tensors = {name: x if name == "weights" else x[:, :, :1] for name, x in inputs_of(scan).items()}
    if not scan.steps:
        return
    taken: list[object] = []
    plain = kernels.launch
    monkeypatch.setattr(
        kernels, "launch", lambda kernel, *rest, **more: taken.append(kernel) or plain(kernel, *rest, **more)
    )
    actual = fast_weight_scan(**tensors, backend="triton")
    expected = fast_weight_scan(**{name: x.double() for name, x in tensors.items()}, backend="recurrent")
    assert taken == [kernels.step_kernel]
    for x, y in zip(actual, expected, strict=True):
        assert relative_to_largest(x, y) <= TOLERANCES[scan.dtype][0], scan
    assert actual[1].dtype == torch.float32


def test_steps_one_by_one_are_the_sequence() -> None:
    tensors = {name: x.float() for name, x in inputs_of(drawn(12)).items()}
    weights = tensors.pop("weights", None)
    expected, final = fast_weight_scan(**tensors, weights=weights, backend="triton")
    reads = []
    for t in range(tensors["keys"].shape[2]):
        now = {name: x[:, :, t : t + 1] for name, x in tensors.items()}
        read, weights = fast_weight_scan(**now, weights=weights, backend="triton")
        reads.append(read)
    torch.testing.assert_close(torch.cat(reads, 2), expected, rtol=1e-5, atol=5e-6)
    torch.testing.assert_close(weights, final, rtol=1e-5, atol=5e-6)
