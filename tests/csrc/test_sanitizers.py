"""The kernels under AddressSanitizer and UndefinedBehaviorSanitizer, with random shapes and strides, empty ones too."""

import platform
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
COMPILER = shutil.which("g++") or shutil.which("clang++")
CASES = 250  # for each instruction set: 500 with AVX2, 750 with AVX-512

LEVELS = {"baseline": (16, [])}
if platform.machine() in ("x86_64", "AMD64"):
    LEVELS["avx2"] = (32, ["-mavx2", "-mfma"])
    LEVELS["avx512"] = (64, ["-mavx2", "-mfma", *(f"-mavx512{part}" for part in ("f", "vl", "dq", "bw"))])

OPTIONS = [
    *("-std=c++17", "-O1", "-g", "-Wall", "-Wextra", "-Werror", "-ffp-contract=fast", f"-I{ROOT / 'csrc'}"),
    *("-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-fopenmp"),
]


def build(folder: Path) -> Path:
    """The program, with every instruction set in it."""
    assert COMPILER is not None
    objects = []
    x86 = ["-DFASTWEIGHTS_X86"] if len(LEVELS) > 1 else []
    for level, (vector_bytes, options) in LEVELS.items():
        objects.append(folder / f"{level}.o")
        defined = [f"-DFASTWEIGHTS_LEVEL={level}", f"-DFASTWEIGHTS_VECTOR_BYTES={vector_bytes}"]
        source = ROOT / "csrc" / "kernels.cpp"
        subprocess.run([COMPILER, *OPTIONS, *defined, *options, "-c", source, "-o", objects[-1]], check=True)
    program = folder / "random_cases"
    sources = [*(ROOT / "csrc" / f"{name}.cpp" for name in ("dispatch", "generation", "scan", "step"))]
    sources.append(ROOT / "tests" / "csrc" / "random_cases.cpp")
    subprocess.run([COMPILER, *OPTIONS, *x86, *sources, *objects, "-o", program], check=True)
    return program


@pytest.mark.slow
@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler here")
def test_random_calls_make_no_sanitizer_speak(tmp_path: Path) -> None:
    program = build(tmp_path)
    finished = subprocess.run([program, str(CASES)], capture_output=True, text=True, timeout=600)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert finished.stderr == ""
    assert int(finished.stdout.split()[0]) >= CASES
