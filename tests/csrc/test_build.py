"""The interface of the sources, and an installation where no compiler works: everything runs, and says why."""

import os
import re
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from fastweights.kernels.native import library

ROOT = Path(__file__).parents[2]

USE = """
import sys
sys.path[:0] = [sys.argv[1]]
sys.path.append(sys.argv[2])
import fastweights, torch
from fastweights import FastWeightAttention, fast_weight_scan
from fastweights.cli import main
from fastweights.memory import Call, choose_backend

assert fastweights.__file__.startswith(sys.argv[1])
assert choose_backend("auto", Call(torch.device("cpu"), torch.float32, steps=9)) == "chunked"
layer = FastWeightAttention(8, 2)
y, state = layer(torch.randn(1, 5, 8))
y.sum().backward()
layer(torch.randn(1, 1, 8), state.detach())
x, strength = torch.rand(1, 1, 3, 4), torch.rand(1, 1, 3)
try:
    fast_weight_scan(x, x, x, strength, strength, backend="native")
except ValueError as error:
    print(error)
sys.argv[1:] = ["doctor"]
main()
"""


def test_the_package_calls_the_interface_of_its_sources() -> None:
    (number,) = re.findall(r"kInterface = (\d+);", (ROOT / "csrc/capi.h").read_text(encoding="utf-8"))
    assert int(number) == library.INTERFACE


@pytest.mark.slow
@pytest.mark.parametrize("compiler", ["/bin/false", "/nowhere/c++"])
def test_the_package_installs_and_works_without_a_compiler(tmp_path: Path, compiler: str) -> None:
    pytest.importorskip("scikit_build_core")
    install = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-build-isolation", "--target", tmp_path, ROOT]
    subprocess.run(install, env=os.environ | {"CXX": compiler}, check=True, capture_output=True)
    # -S: no site packages by their own paths, among which this very package is installed with its kernel.
    use = [sys.executable, "-S", "-c", USE, tmp_path, sysconfig.get_path("purelib")]
    shown = subprocess.run(use, check=True, capture_output=True, text=True, cwd=tmp_path).stdout
    reason = "no working C++ compiler was found when the package was built"
    assert f"backend: 'native' cannot serve this call: {reason}" in shown
    assert reason in " ".join(shown.partition("\n")[2].split())
