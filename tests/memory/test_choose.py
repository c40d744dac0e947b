"""Which backend serves a call; a backend is one module and one line in the table."""

from types import ModuleType

import pytest
import torch
from operator_inputs import differentiate, draw, leaves
from torch import Tensor
from torch.testing import assert_close

from equations import linear_recurrence
from fastweights import backends, fast_weight_scan
from fastweights.memory import BACKENDS, Call, choose_backend, recurrent

CPU = torch.device("cpu")


def test_auto_takes_no_filled_chunk_for_a_single_step(monkeypatch: pytest.MonkeyPatch) -> None:
    table = {name: module for name, module in BACKENDS.items() if name != "native"}
    monkeypatch.setattr("fastweights.memory.choose.BACKENDS", table)
    assert choose_backend("auto", Call(CPU, torch.float32, steps=2)) == "chunked"
    assert choose_backend("auto", Call(CPU, torch.float32, steps=1)) == "recurrent"
    assert choose_backend("chunked", Call(CPU, torch.float32, steps=1)) == "chunked"


def test_decays_on_apples_gpus_go_step_by_step() -> None:
    mps = torch.device("mps")
    assert choose_backend("auto", Call(mps, torch.float32, 9)) == "chunked"
    for decay in ("head", "channel"):
        assert choose_backend("auto", Call(mps, torch.float32, 9, decay)) == "recurrent"
        with pytest.raises(ValueError, match=r"'chunked' cannot serve this call: .* float64, which mps does not have"):
            choose_backend("chunked", Call(mps, torch.float32, 9, decay))


def test_an_unknown_backend_is_refused_with_the_known_ones() -> None:
    with pytest.raises(
        ValueError, match="unknown backend 'abacus'; possible: auto, native, triton, chunked, recurrent"
    ):
        choose_backend("abacus", Call(CPU, torch.float32, steps=2))


@pytest.mark.parametrize(
    "call", [Call(CPU, torch.float32, 9, decay="channel"), Call(CPU, torch.float32, 9, lookups=True)]
)
def test_a_decay_per_component_and_lookups_go_to_the_fastest_backend(call: Call) -> None:
    available = [name for name, status in backends().items() if status.available]
    assert choose_backend("auto", call) == available[0]
    assert [choose_backend(name, call) for name in available] == available


def general() -> dict[str, Tensor]:
    """A problem with a decay for each component of the keys, and lookups of their own."""
    tensors = draw(3, steps=11)
    keys = tensors["keys"]
    tensors["decay"] = 1 - 0.3 * torch.rand(keys.shape, dtype=torch.float64)
    tensors["lookups"] = torch.nn.functional.normalize(torch.randn_like(keys), dim=-1)
    return tensors


def test_a_decay_per_component_and_lookups_are_the_equation_and_differentiable() -> None:
    ours, plain = leaves(tensors := general()), leaves(tensors)
    actual, expected = fast_weight_scan(**ours), linear_recurrence(**plain)
    for x, y in zip(actual, expected, strict=True):
        assert_close(x, y, rtol=1e-12, atol=1e-13)
    wanted = differentiate(expected, plain)
    for name, gradient in differentiate(actual, ours).items():
        assert_close(gradient, wanted[name], rtol=1e-11, atol=1e-12)


@pytest.mark.usefixtures("without_shape_checks")
def test_a_decay_or_lookups_of_another_shape_are_refused() -> None:
    with pytest.raises(ValueError, match=r"^decay: expected a tensor of shape"):
        fast_weight_scan(**general() | {"decay": torch.ones(2, 2, 11, 3, dtype=torch.float64)})
    with pytest.raises(ValueError, match=r"^lookups: expected a tensor of shape"):
        fast_weight_scan(**general() | {"lookups": torch.ones(2, 2, 11, 3, dtype=torch.float64)})


def test_a_backend_is_one_module_and_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("mirror")
    served: list[int] = []

    def scan(*inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        served.append(inputs[1].shape[2])
        return recurrent.scan(*inputs)

    vars(module).update(
        unavailable=lambda: None,
        cannot_serve=lambda call: "it has no decay" if call.decay != "none" else None,
        suits=lambda call: call.steps > 1,
        scan=scan,
    )
    table = {"mirror": module, **BACKENDS}
    monkeypatch.setattr("fastweights.memory.choose.BACKENDS", table)
    monkeypatch.setattr("fastweights.memory.scan.BACKENDS", table)
    tensors = draw(4, steps=5)
    expected = fast_weight_scan(**tensors | {"decay": None}, backend="recurrent")
    for backend in ("auto", "mirror"):
        for x, y in zip(fast_weight_scan(**tensors | {"decay": None}, backend=backend), expected, strict=True):
            assert torch.equal(x, y)
    assert served == [5, 5]
    assert backends()["mirror"].available
    with pytest.raises(ValueError, match="'mirror' cannot serve this call: it has no decay"):
        fast_weight_scan(**tensors, backend="mirror")
