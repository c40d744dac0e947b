"""The kernel as PyTorch sees it: compilers, exporters, inference, copies, worker processes, and builds without it."""

import copy
import os
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from operator_inputs import draw, leaves
from torch import Tensor, nn

from fastweights import DPFP, FastWeightAttention, backends, fast_weight_scan
from fastweights.kernels.native import library as native_library
from fastweights.kernels.native import scan as kernel
from fastweights.memory import Call, choose_backend, native

if (problem := native.unavailable()) is not None:
    pytest.skip(problem, allow_module_level=True)


def inputs_of(decay: bool = True, steps: int = 150, lookups: bool = False) -> list[Tensor | None]:
    tensors = draw(0, steps=steps, dtype=torch.float32, channels=lookups, lookups=lookups)
    return [x if decay or name != "decay" else None for name, x in tensors.items()] + [None] * (not lookups)


@pytest.mark.parametrize(
    ("decay", "lookups", "steps"),
    [
        pytest.param(*case, marks=[] if case in ((False, False, 0), (True, True, 150)) else pytest.mark.slow)
        for case in product([False, True], [False, True], [0, 1, 150])
    ],
)
def test_opcheck_passes(decay: bool, lookups: bool, steps: int) -> None:
    inputs = inputs_of(decay, steps, lookups)
    wanted = [None if x is None else x.clone().requires_grad_() for x in inputs]
    torch.library.opcheck(kernel.scan_forward, (*inputs, False))
    torch.library.opcheck(kernel.scan_forward, (*wanted, True))
    reads, final, retrieved, kept = kernel.scan_forward(*inputs, True)
    torch.library.opcheck(kernel.scan_backward, (reads, final, *inputs, retrieved, kept))
    torch.library.opcheck(kernel.scan_backward, (reads, None, *inputs, retrieved, kept))


def test_the_shortcut_past_the_dispatcher_is_taken_only_when_nobody_looks_on() -> None:
    x = torch.randn(3)
    assert not native_library.needs_dispatcher([x, None])
    assert native_library.needs_dispatcher([nn.Parameter(x)])
    assert native_library.needs_dispatcher([torch.complex(x, x).conj().imag])
    with torch.autograd.forward_ad.dual_level():
        assert native_library.needs_dispatcher([x])
    seen: list[str] = []

    class Watch(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with torch.no_grad(), Watch():
        native.scan(*inputs_of())
    assert "fastweights.scan_forward.default" in seen


def test_inference_mode_and_copies() -> None:
    layer = FastWeightAttention(16, 2, feature_map=DPFP(nu=2), backend="native").eval()
    twin = copy.deepcopy(layer)
    x = torch.randn(2, 9, 16)
    expected = layer(x)[0].detach()
    with torch.inference_mode():
        reads, state = twin(x)
        again, _ = twin(x, copy.deepcopy(state))
    assert torch.equal(reads, expected)
    assert not torch.equal(again, expected)


def test_a_second_derivative_is_refused() -> None:
    inputs = leaves(draw(0))
    reads, _ = fast_weight_scan(**inputs, backend="native")
    (gradient,) = torch.autograd.grad(reads.sum(), [inputs["keys"]], create_graph=True)
    with pytest.raises(RuntimeError, match=r"native backend has no second derivative.*recurrent"):
        gradient.sum().backward()


FORKED = """
import os, sys, torch
from fastweights import fast_weight_scan
torch.set_num_threads(2)
x = [torch.rand(4, 4, 200, 32) / 16 for _ in range(3)]
beta = torch.rand(4, 4, 200)
torch.mm(torch.rand(600, 600), torch.rand(600, 600))
expected = fast_weight_scan(*x, beta, beta, backend="native")[0]
child = os.fork()
if child == 0:
    reads = fast_weight_scan(*x, beta, beta, backend="native")[0]
    torch.set_num_threads(1)  # torch's own operators wait for ever for the threads of the parent
    os._exit(0 if torch.equal(reads, expected) else 3)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""

# In processes of their own: the shape checks of the test run are nothing for a compiler.
COMPILED = """
import torch
from fastweights import fast_weight_scan

def loss(*tensors):
    reads, weights = fast_weight_scan(*tensors, backend="native")
    return reads.square().sum() + weights.sin().sum()

for dynamic in (False, True):
    compiled = torch.compile(loss, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for steps in (33, 40):
        shapes = [(2, 2, steps, 6)] * 2 + [(2, 2, steps, 5)] + [(2, 2, steps)] * 2 + [(2, 2, 5, 6), (2, 2, steps)]
        tensors = [torch.rand(shape, dtype=torch.float64, requires_grad=True) for shape in shapes]
        found = torch.autograd.grad(compiled(*tensors), tensors)
        for x, y in zip(found, torch.autograd.grad(loss(*tensors), tensors), strict=True):
            torch.testing.assert_close(x, y, rtol=1e-12, atol=1e-12)
"""

EXPORTED = """
import torch
from fastweights import DPFP, FastWeightAttention, fast_weight_scan

class Operator(torch.nn.Module):
    def forward(self, *tensors):
        return fast_weight_scan(*tensors, backend="native")

shapes = [(2, 2, 9, 6)] * 2 + [(2, 2, 9, 5)] + [(2, 2, 9)] * 2
tensors = tuple(torch.rand(shape) for shape in shapes)
program = torch.export.export(Operator(), tensors)
assert any("fastweights.scan_forward" in str(part.graph) for part in program.graph_module.modules())
for x, y in zip(program.module()(*tensors), fast_weight_scan(*tensors), strict=True):
    assert torch.equal(x, y)

layer = FastWeightAttention(16, 2, feature_map=DPFP(nu=2), backend="native")
x = torch.randn(2, 9, 16)
compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
torch.testing.assert_close(compiled(x)[0], layer(x)[0])
compiled(x)[0].sum().backward()
"""

MODEL = """
import sys, torch
from fastweights.models.language_model import LanguageModel, LanguageModelConfig

torch.manual_seed(0)
model = LanguageModel(LanguageModelConfig(30, 16, 2, num_layers=2, feed_forward_dim=32, dropout=0.0))
tokens, targets = torch.randint(30, (2, 2, 20))
compiled = torch.compile(model, fullgraph=True, backend=sys.argv[1])

def gradients(run):
    return torch.autograd.grad(model.losses(run(tokens)[0], targets).mean(), list(model.parameters()))

for found, expected in zip(gradients(compiled), gradients(model), strict=True):
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-6)

model.eval()
with torch.inference_mode():
    hidden, states = compiled(tokens[:, :15])
    expected = model(tokens)[0]
    torch.testing.assert_close(hidden, expected[:, :15], rtol=1e-4, atol=1e-5)
    for step in range(15, 20):  # one by one, as in generation
        hidden, states = compiled(tokens[:, step : step + 1], states)
        torch.testing.assert_close(hidden[:, 0], expected[:, step], rtol=1e-4, atol=1e-5)
"""

WORKERS = """
import torch
from torch.utils.data import DataLoader, Dataset
from fastweights import fast_weight_scan

def reads(seed):
    generator = torch.Generator().manual_seed(seed)
    x = [torch.rand(2, 4, 100, 32, generator=generator) / 16 for _ in range(3)]
    beta = torch.rand(2, 4, 100, generator=generator)
    return fast_weight_scan(*x, beta, beta, backend="native")[0]

class Reads(Dataset):
    def __len__(self):
        return 6
    def __getitem__(self, i):
        return reads(i)

expected = [reads(i) for i in range(6)]
found = list(DataLoader(Reads(), batch_size=None, num_workers=2))
assert all(torch.equal(x, y) for x, y in zip(found, expected, strict=True))
"""


@pytest.mark.parametrize("script", [FORKED, WORKERS], ids=["fork", "data loader workers"])
def test_other_processes_can_use_the_kernel(script: str) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=120)


@pytest.mark.parametrize("script", [COMPILED, EXPORTED], ids=["compile", "export"])
def test_the_whole_operator_can_be_compiled_and_exported(script: str) -> None:
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True, timeout=120)


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["aot_eager", "inductor"])
def test_a_language_model_can_be_compiled_for_training_and_generation(compiler: str) -> None:
    if compiler == "inductor" and shutil.which("g++") is None:
        pytest.skip("there is no C++ compiler here")
    subprocess.run([sys.executable, "-W", "ignore", "-c", MODEL, compiler], check=True, timeout=600)


def test_an_instruction_set_that_is_not_there_makes_the_backend_unavailable() -> None:
    script = "import fastweights; print(fastweights.backends()['native'].reason)"
    environment = os.environ | {native_library.INSTRUCTIONS: "abacus"}
    shown = subprocess.run([sys.executable, "-c", script], env=environment, check=True, capture_output=True, text=True)
    assert "FASTWEIGHTS_INSTRUCTIONS is 'abacus', which this processor lacks; possible: " in shown.stdout
    assert "baseline" in shown.stdout


def test_a_build_without_the_kernel_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    reason = "no working C++ compiler was found when the package was built"
    monkeypatch.setattr(native_library, "_problem", reason)
    assert backends()["native"] == (False, reason)
    assert choose_backend("auto", Call(torch.device("cpu"), torch.float32, steps=9)) == "chunked"
    with pytest.raises(ValueError, match=f"'native' cannot serve this call: {reason.replace('+', '.')}"):
        fast_weight_scan(**draw(0), backend="native")


def test_other_devices_and_types_are_refused() -> None:
    assert native.cannot_serve(Call(torch.device("cpu"), torch.bfloat16, steps=9)) is None
    assert "CPU only" in str(native.cannot_serve(Call(torch.device("meta"), torch.float32, steps=9)))


def test_a_library_with_another_interface_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_library, "INTERFACE", native_library.INTERFACE + 1)
    library, reason = native_library._open()
    assert library is None
    assert reason == "the compiled library belongs to another version of the package: install it again with pip"


PRODUCT = """
import os, torch
from fastweights import FastWeightAttention
x = torch.ones(64, 64, dtype=torch.bfloat16)
print(os.environ.get("ONEDNN_MAX_CPU_ISA"), (x @ x).sum().item())
"""


def test_a_product_in_bfloat16_survives_tiles_that_are_announced_and_missing() -> None:
    own = {name: value for name, value in os.environ.items() if name != native_library.ONEDNN_LIMIT}
    wanted = native_library.WITHOUT_TILES if native_library.tiles_are_missing() else None
    for given, limit in (({}, wanted), ({native_library.ONEDNN_LIMIT: "AVX512_CORE"}, "AVX512_CORE")):
        run = subprocess.run([sys.executable, "-c", PRODUCT], env=own | given, capture_output=True, text=True)
        assert (run.returncode, run.stdout) == (0, f"{limit} 262144.0\n")


def test_tiles_are_missing_only_where_a_processor_announces_them() -> None:
    flags = Path("/proc/cpuinfo")
    if not flags.exists():
        pytest.skip("what the processor announces is read from /proc/cpuinfo")
    assert "amx_tile" in flags.read_text() or not native_library.tiles_are_missing()
