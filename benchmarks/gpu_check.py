"""`make gpu-check`: what a GPU has to show here, or, without one, what can be shown anyway."""

import os
import platform
import subprocess
import sys

import torch

GPU = [["-m", "pytest", "-q", "-s", "tests/gpu", "-p", "no:cacheprovider"]]
INTERPRETED = os.environ.get("INTERPRETED", "tests/kernels/triton").split()
"""The tests of `make test-gpu`."""
NO_GPU = [
    ["-m", "pytest", "-q", *INTERPRETED, "-p", "no:cacheprovider", "-n", "auto", "-m", "not slow"],
    ["-m", "benchmarks.gpu_resources", "--check"],
]


def main() -> None:
    """Say where this is, run everything, and end with the first status that is not zero."""
    there = torch.cuda.is_available()
    where = torch.cuda.get_device_name() if there else "no NVIDIA or AMD GPU: interpreter and compilation only"
    print(
        f"fastweights on {platform.platform()}, Python {platform.python_version()}, torch {torch.__version__}: {where}"
    )
    failed = 0
    for number, command in enumerate(GPU if there else NO_GPU):
        interpreted = {"TRITON_INTERPRET": "1"} if not there and number == 0 else {}
        done = subprocess.run([sys.executable, *command], env=os.environ | interpreted, check=False)
        failed = failed or done.returncode
    sys.exit(failed)


if __name__ == "__main__":
    main()
