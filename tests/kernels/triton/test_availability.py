"""Whether Triton can run here, with and without it."""

import subprocess
import sys
from importlib.util import spec_from_file_location
from pathlib import Path

import pytest
import torch

from fastweights.kernels.triton import availability

CPU, CUDA = torch.device("cpu"), torch.device("cuda:0")


def test_without_triton_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "installed", lambda: None)
    assert availability.unavailable() == "Triton is not installed; possible: pip install 'fastweights[gpu]'"


def test_a_triton_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(availability, "installed", lambda: (3, 3))
    assert availability.unavailable() == "it needs Triton 3.4 or later, got 3.3; a later torch brings it"


@pytest.mark.parametrize(
    ("text", "version"), [("__version__ = '3.12.1'\n", (3, 12)), ('x = 1\n__version__ = "4.0"', (4, 0)), ("", (0, 0))]
)
def test_the_version_is_read_without_an_import(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, version: tuple[int, int]
) -> None:
    package = tmp_path / "__init__.py"
    package.write_text(text + "\nraise RuntimeError\n")
    spec = spec_from_file_location("triton", package)
    monkeypatch.setattr(availability, "find_spec", lambda name: spec)
    assert availability._find() == version


def test_without_a_gpu_the_interpreter_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "installed", lambda: availability.OLDEST)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert "torch sees no NVIDIA or AMD GPU; TRITON_INTERPRET=1" in (availability.unavailable() or "")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert availability.unavailable() is None


def test_each_kind_of_tensor_has_its_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert availability.wrong_device(CUDA) is None
    assert availability.wrong_device(CPU) == "it runs on NVIDIA and AMD GPUs, got tensors on cpu"
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert availability.wrong_device(CPU) is None
    assert availability.wrong_device(CUDA) == "TRITON_INTERPRET=1 serves CPU tensors only, got tensors on cuda:0"


def test_the_package_works_where_triton_cannot_be_imported() -> None:
    program = (
        "import sys; sys.modules['triton'] = None\n"
        "import torch, fastweights as f\n"
        "x, a = torch.ones(1, 1, 2, 3), torch.ones(1, 1, 2)\n"
        "f.fast_weight_scan(x, x, x, a, a)\n"
        "assert f.DPFP()(x).shape == (1, 1, 2, 6)\n"
        "assert not any(name.startswith('fastweights.kernels.triton.') and 'availability' not in name\n"
        "               for name in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=300)
