"""The short way of a single step: it gives what the oracle gives, and steps aside for everything unusual."""

from typing import Any

import pytest
import torch
from operator_inputs import draw
from torch import Tensor, nn

from fastweights import fast_weight_scan
from fastweights.kernels.native import library as native_library
from fastweights.kernels.native import step as native_step
from fastweights.memory import native, recurrent
from random_problems import relative_error

if native.unavailable() is not None or native_step._step is None:
    pytest.skip("there is no short way here", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("without_shape_checks")

SHAPES = [(1, 8, 64, 64), (2, 3, 17, 5), (1, 1, 1, 1), (3, 2, 130, 33), (1, 2, 32, 1), (2, 1, 16, 6)]


def one_step(
    shape: tuple[int, ...] = (2, 2, 6, 5), decay: bool = True, dtype: torch.dtype = torch.float32, **kind: bool
) -> dict[str, Any]:
    batch, heads, key_dim, value_dim = shape
    tensors = draw(0, batch, heads, 1, key_dim, value_dim, dtype, **kind)
    return tensors if decay else tensors | {"decay": None}


def out_of_a_sequence(x: Tensor) -> Tensor:
    """The same step, as a slice of a longer sequence with heads after time."""
    longer = torch.randn(x.shape[0], 7, x.shape[1], *x.shape[3:], dtype=x.dtype)
    longer[:, 3] = x[:, :, 0]
    return longer.transpose(1, 2)[:, :, 3:4]


@pytest.mark.parametrize(("dtype", "bound"), [(torch.float64, 1e-14), (torch.float32, 1e-6)], ids=str)
@pytest.mark.parametrize("decay", [False, True], ids=["no decay", "decay"])
@pytest.mark.parametrize("sliced", [False, True], ids=["whole", "sliced"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("channels", [False, True], ids=["per head", "channels"])
@pytest.mark.parametrize("lookups", [False, True], ids=["keys", "lookups"])
def test_it_agrees_with_the_oracle(
    shape: tuple[int, ...], sliced: bool, decay: bool, channels: bool, lookups: bool, dtype: torch.dtype, bound: float
) -> None:
    tensors = one_step(shape, decay, dtype, channels=channels, lookups=lookups)
    expected = recurrent.scan(**{name: x if x is None else x.double() for name, x in tensors.items()})
    if sliced:
        tensors = {n: x if n == "weights" or x is None else out_of_a_sequence(x) for n, x in tensors.items()}
    actual = native_step.step(**tensors)
    assert actual is not None
    for x, y in zip(actual, expected, strict=True):
        assert x.dtype == dtype
        assert relative_error(x, y) <= bound


@pytest.mark.parametrize("backend", ["auto", "native"])
def test_the_operator_takes_it(monkeypatch: pytest.MonkeyPatch, backend: str) -> None:
    expected = fast_weight_scan(**one_step(), backend="recurrent")
    monkeypatch.setattr(native, "scan", None)
    for x, y in zip(fast_weight_scan(**one_step(), backend=backend), expected, strict=True):
        assert relative_error(x, y) <= 1e-6


def test_the_weights_given_stay_as_they_are() -> None:
    tensors = one_step()
    before = tensors["weights"].clone()
    native_step.step(**tensors)
    assert torch.equal(tensors["weights"], before)


def watched(tensors: dict[str, Any]) -> dict[str, Any]:
    return tensors | {"keys": nn.Parameter(tensors["keys"], requires_grad=False)}


UNUSUAL = {
    "no weights": lambda t: t | {"weights": None},
    "two steps": lambda t: {n: x if n == "weights" else torch.cat([x, x], dim=2) for n, x in t.items()},
    "a gradient is wanted": lambda t: t | {"values": t["values"].requires_grad_()},
    "a subclass": watched,
    "a negated view": lambda t: t | {"values": torch.complex(t["values"], t["values"]).conj().imag},
    "half precision": lambda t: {n: x.bfloat16() for n, x in t.items()},
    "weights in another order": lambda t: t | {"weights": t["weights"].mT.contiguous().mT},
    "keys in another order": lambda t: t | {"keys": torch.cat([t["keys"]] * 2, 2).mT.contiguous().mT[:, :, :1]},
    "queries too wide": lambda t: t | {"queries": torch.zeros(2, 2, 1, 7)},
    "too many values": lambda t: t | {"values": torch.zeros(2, 2, 1, 6)},
    "erase of two steps": lambda t: t | {"erase": torch.zeros(2, 2, 2)},
    "write without heads": lambda t: t | {"write": torch.zeros(2, 1)},
    "decay in double precision": lambda t: t | {"decay": t["decay"].double()},
    "channels in double precision": lambda t: t | {"decay": t["keys"].double()},
    "too many channels": lambda t: t | {"decay": torch.zeros(2, 2, 1, 7)},
    "lookups of two steps": lambda t: t | {"lookups": torch.zeros(2, 2, 2, 6)},
    "lookups too wide": lambda t: t | {"lookups": torch.zeros(2, 2, 1, 7)},
    "whole numbers": lambda t: t | {"keys": t["keys"].int()},
    "no values at all": lambda t: t | {"values": t["values"][..., :0], "weights": t["weights"][:, :, :0]},
    "no tensor": lambda t: t | {"values": "x"},
    "another device": lambda t: {n: x.to("meta") for n, x in t.items()},
    "a sparse tensor": lambda t: t | {"weights": t["weights"].to_sparse()},
}


@pytest.mark.parametrize("change", UNUSUAL.values(), ids=UNUSUAL)
def test_it_steps_aside(change: Any) -> None:
    assert native_step.step(**one_step()) is not None
    assert native_step.step(**change(one_step())) is None


def test_it_steps_aside_where_the_kernel_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_library, "_problem", "not built")
    assert native_step.step(**one_step()) is None


@pytest.mark.parametrize("name", ["queries", "erase", "write", "weights", "decay"])
def test_what_does_not_fit_is_still_named(name: str) -> None:
    tensors = one_step()
    tensors[name] = torch.zeros(*tensors[name].shape[:-1], 9)
    with pytest.raises(ValueError, match=f"^{name}: expected "):
        fast_weight_scan(**tensors, backend="native")


def test_inference_mode_and_no_gradients() -> None:
    with torch.inference_mode():
        assert native_step.step(**one_step()) is not None
    with torch.no_grad():
        assert native_step.step(**UNUSUAL["a gradient is wanted"](one_step())) is not None
