"""Problems that are cut into stretches, for processes or threads: `torchrun stretches.py` compares every kind."""

import itertools
import sys

import torch
from torch import Tensor, distributed

from fastweights.memory import fast_weight_scan
from fastweights.memory.sequence_parallel import sequence_parallel_scan

Tensors = dict[str, Tensor]
KINDS = tuple(itertools.product(["none", "head", "channel"], [False, True], [False, True]))
"""Decay, lookups, initial weights."""
TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-6}


def problem(steps: int, kind: tuple[str, bool, bool], dtype: torch.dtype) -> Tensors:
    """A well-conditioned problem: unit keys, erase and decay between 0 and 1, exactly 0 among them."""
    decay, lookups, starts_full = kind
    torch.manual_seed(steps)
    b, h, k, v = 2, 3, 5, 4
    drawn = {name: torch.randn(b, h, steps, k) for name in ("queries", "keys", "lookups")}
    for name in ("keys", "lookups"):
        drawn[name] = torch.nn.functional.normalize(drawn[name], dim=-1)
    drawn |= {"values": torch.randn(b, h, steps, v), "erase": torch.rand(b, h, steps), "write": torch.rand(b, h, steps)}
    gates = {"head": torch.rand(b, h, steps) ** 0.1, "channel": torch.rand(b, h, steps, k) ** 0.1}
    if decay != "none":
        drawn["decay"] = gates[decay]
        drawn["decay"][:, :, steps // 2 : steps // 2 + 1] = 0.0
    if not lookups:
        del drawn["lookups"]
    if starts_full:
        drawn["weights"] = torch.randn(b, h, v, k)
    return {name: x.to(dtype) for name, x in drawn.items()}


def cuts(steps: int, processes: int) -> list[slice]:
    """Stretches of different lengths, the first of which may be empty."""
    edges = [round(steps * (number / processes) ** 2) for number in range(processes + 1)]
    return [slice(low, high) for low, high in itertools.pairwise(edges)]


def results(given: Tensors, rows: slice, processes: int, backend: str) -> Tensors:
    """Reads, final weights and all gradients of a stretch, or of the whole sequence on one process."""
    leaves = {name: x.detach().clone().requires_grad_() for name, x in given.items()}
    scan = fast_weight_scan if processes == 1 else sequence_parallel_scan
    reads, final = scan(**leaves, backend=backend)  # type: ignore[operator]
    factors = torch.arange(rows.start, rows.stop, dtype=reads.dtype).sin()[:, None]
    # Every process has its share of what the final weights cost.
    ((reads * factors).sum() + (final**2).sum() / processes).backward()
    # Nothing depends on what has no steps.
    gradients = {f"d {name}": torch.zeros_like(x) if x.grad is None else x.grad for name, x in leaves.items()}
    return {"reads": reads.detach(), "final weights": final.detach(), **gradients}


def errors(whole: Tensors, rank: int, processes: int, backend: str) -> dict[str, float]:
    """How far a stretch is from the same steps of one process in float64, in parts of the largest number there.

    In float64 for float32 problems too: there, one process alone is as far from the truth as several are.
    """
    steps = whole["keys"].shape[2]
    rows = cuts(steps, processes)[rank]
    alone = results({name: x.double() for name, x in whole.items()}, slice(0, steps), 1, "recurrent")
    cut = {name: x if name == "weights" else x[:, :, rows] for name, x in whole.items()}
    found = results(cut, rows, processes, backend)
    same_everywhere = ("final weights", "d weights")
    expected = {name: x if name in same_everywhere else x[:, :, rows] for name, x in alone.items()}
    largest = {name: float(x.abs().amax()) or 1.0 for name, x in alone.items() if x.numel()}
    return {
        name: float((found[name] - x).abs().max()) / largest[name] if x.numel() else 0.0 for name, x in expected.items()
    }


if __name__ == "__main__":
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    rank, size = distributed.get_rank(), distributed.get_world_size()
    for dtype, tolerance in TOLERANCES.items():
        for kind in KINDS:
            for backend in ("chunked", "native"):
                for steps in (67, 200):
                    found = errors(problem(steps, kind, dtype), rank, size, backend)
                    if bad := {name: error for name, error in found.items() if not error <= tolerance}:
                        sys.exit(f"process {rank}: {dtype} {kind} {backend} {steps} steps: {bad}")
    distributed.destroy_process_group()
    print("agreed", flush=True)
