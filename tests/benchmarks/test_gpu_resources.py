"""Compilation for chips that are not here, in a process of its own: the interpreter's kernels cannot be compiled."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.parametrize("chip", ["sm_80", "sm_90", "sm_100", "gfx942"])
def test_no_kernel_spills(chip: str) -> None:
    pytest.importorskip("triton", reason="Triton is not installed: make gpu-check")
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    command = [sys.executable, "-m", "benchmarks.gpu_resources", "--check", "--chips", chip]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "63 kernels compiled, 0 that spill" in done.stdout
