"""How much memory a training step of the operator needs: `python -m benchmarks.backward_memory`.

Each case runs in a process of its own and reports its peak of resident memory over what it held before, inputs
included: everything that forward and backward keep or compute, gradients too. The step loop keeps W for every step, the
other backends only at the ends of chunks.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import torch

from fastweights import backends, fast_weight_scan

STEPS, DIM, HEADS = 4096, 64, 4
LOOP = "recurrent"


def measure(backend: str, steps: int = STEPS, dim: int = DIM, heads: int = HEADS) -> int:
    """Bytes above those of the inputs, for one forward and backward in this process."""
    # A first call loads what has to be loaded.
    _train_step(backend, _inputs(130, dim, heads))
    inputs = _inputs(steps, dim, heads)
    # The peak so far belongs to the imports, whose pages the system may have taken back since.
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    before = _bytes_of("VmRSS")
    _train_step(backend, inputs)
    return _bytes_of("VmHWM") - before


def measure_apart(backend: str) -> int:
    """The same in a fresh process, so that no case profits from memory that another one left."""
    command = [sys.executable, "-m", "benchmarks.backward_memory", "--only", backend]
    root = Path(__file__).resolve().parents[1]
    return int(subprocess.run(command, check=True, capture_output=True, text=True, cwd=root).stdout)


def _inputs(steps: int, dim: int, heads: int) -> list[torch.Tensor]:
    torch.manual_seed(0)
    queries, keys, values = (torch.empty(1, heads, steps, dim).uniform_(-1, 1) for _ in range(3))
    # In place: a temporary would raise the peak before the measurement begins.
    keys.mul_((3 / dim) ** 0.5)
    strengths = torch.rand(1, heads, steps)
    return [x.requires_grad_() for x in (queries, keys, values, strengths, strengths.clone())]


def _train_step(backend: str, inputs: list[torch.Tensor]) -> None:
    reads, weights = fast_weight_scan(*inputs, backend=backend)
    (reads.sum() + weights.sum()).backward()


def _bytes_of(name: str) -> int:
    """Resident memory now (VmRSS) or at its peak (VmHWM)."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith(f"{name}:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError(f"/proc/self/status has no {name}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=list(backends()), help="measure one backend in this process, print bytes")
    only = parser.parse_args().only
    if only is not None:
        print(measure(only))
        return
    names = [LOOP, *(name for name, status in backends().items() if status.available and name != LOOP)]
    needed = {name: measure_apart(name) for name in names}
    print(f"forward and backward, t = {STEPS}, {HEADS} heads, k = v = {DIM}, float32")
    for name, size in needed.items():
        label = "autograd through the step loop" if name == LOOP else name
        print(f"{label:32}{size / 2**20:8.1f} MiB   1/{needed[LOOP] / size:.1f}")


if __name__ == "__main__":
    main()
