"""Which calls the Triton backend serves; its kernels are tested in kernels/triton/."""

import pytest
import torch

from fastweights.memory import BACKENDS, Call, choose_backend, triton

CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")


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
