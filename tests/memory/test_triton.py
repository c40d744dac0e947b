"""Which calls the Triton backend serves; its kernels are tested in kernels/triton/."""

import pytest
import torch

from combinations import INTERPRETED
from fastweights.layers import FastWeightAttention
from fastweights.memory import BACKENDS, Call, choose_backend, triton
from fastweights.update_rules import UPDATE_RULES

CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")
REFUSED = {
    "fast-weight-memory": "cannot run FastWeightMemoryRule, which is not linear in W",
    "programmer": "cannot run ProgrammerRule, which is not linear in W",
    "kimi-delta": "cannot serve this call: it has no decay per channel; possible: backend='chunked'",
    "gated-delta-2": "cannot serve this call: it has no decay per channel; possible: backend='chunked'",
}
"""Rules that it does not serve."""
interpreted = pytest.mark.skipif(not INTERPRETED, reason="needs Triton and TRITON_INTERPRET=1: make test-gpu")


@pytest.fixture
def with_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(triton, "unavailable", lambda: None)


@pytest.mark.usefixtures("with_a_gpu")
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("decay", ["none", "head"])
def test_auto_takes_it_for_tensors_on_a_gpu(dtype: torch.dtype, decay: str) -> None:
    for steps in (0, 1, 100):
        assert choose_backend("auto", Call(CUDA, dtype, steps, decay)) == "triton"


@pytest.mark.usefixtures("with_a_gpu")
@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (Call(CUDA, torch.float32, 9, "channel"), "it has no decay per channel"),
        (Call(CUDA, torch.float32, 9, lookups=True), "it has no lookups of their own"),
        (Call(CUDA, torch.float64, 9), "float32, bfloat16 and float16, got torch.float64"),
        (Call(CUDA, torch.float32, 9, transform="vmap"), "no rule for torch.func"),
        (Call(CPU, torch.float32, 9), "it runs on NVIDIA and AMD GPUs, got tensors on cpu"),
    ],
)
def test_what_it_cannot_serve_it_refuses_by_name(call: Call, reason: str) -> None:
    with pytest.raises(ValueError, match=f"'triton' cannot serve this call: .*{reason}"):
        choose_backend("triton", call)
    assert choose_backend("auto", call) != "triton"


def test_auto_never_interprets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(triton, "unavailable", lambda: None)
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    table = {name: module for name, module in BACKENDS.items() if name != "native"}
    monkeypatch.setattr("fastweights.memory.choose.BACKENDS", table)
    for steps in (0, 1, 100):
        assert choose_backend("triton", Call(CPU, torch.float32, steps)) == "triton"
        assert choose_backend("auto", Call(CPU, torch.float32, steps)) in ("chunked", "recurrent")


@interpreted
@pytest.mark.parametrize("name", UPDATE_RULES)
def test_a_layer_of_every_rule_is_served_or_refused_by_name(name: str) -> None:
    layer, x = FastWeightAttention(8, 2, update_rule=UPDATE_RULES[name](), backend="triton"), torch.randn(1, 5, 8)
    if name in REFUSED:
        with pytest.raises(ValueError, match=f"backend: 'triton' {REFUSED[name]}"):
            layer(x)
        return
    found, state = layer(x)
    layer.backend = "recurrent"
    expected, after = layer(x)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(state.weights, after.weights, rtol=1e-5, atol=1e-6)


@interpreted
def test_autocast_keeps_the_weights_in_32_bits() -> None:
    layer, x = FastWeightAttention(8, 2, backend="triton"), torch.randn(2, 9, 8)
    with torch.autocast("cpu", torch.bfloat16):
        y, state = layer(x)
        layer.backend = "recurrent"
        expected, after = layer(x)
    assert y.dtype == torch.bfloat16
    assert state.weights.dtype == torch.float32
    torch.testing.assert_close(y, expected, rtol=1e-2, atol=1e-2)
    torch.testing.assert_close(state.weights, after.weights, rtol=0, atol=1e-2)
    y.float().square().sum().backward()
    assert all(p.grad.isfinite().all() and p.grad.abs().sum() > 0 for p in layer.parameters())
