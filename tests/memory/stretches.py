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
    """A well-conditioned problem: unit keys, erase and decay between 0 and 1, exactly 0 among them.

    Lookups e are on their key's side, so that 0 ≤ 1 - a e·k ≤ 1: otherwise a write amplifies what is stored, and 200 of
    them amplify rounding errors a hundred times.
    """
    decay, lookups, starts_full = kind
    torch.manual_seed(steps)
    b, h, k, v = 2, 3, 5, 4
    drawn = {name: torch.randn(b, h, steps, k) for name in ("queries", "keys", "lookups")}
    for name in ("keys", "lookups"):
        drawn[name] = torch.nn.functional.normalize(drawn[name], dim=-1)
    backwards = (drawn["lookups"] * drawn["keys"]).sum(-1, keepdim=True) < 0
    drawn["lookups"] = torch.where(backwards, -drawn["lookups"], drawn["lookups"])
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
    """How far a stretch is from the same steps of one process, in parts of the largest number there.

    From one process in float64, whatever the problem's precision; and from one of the same precision and backend,
    unless that one is itself farther from the truth than from the stretch.
    """
    steps = whole["keys"].shape[2]
    rows = cuts(steps, processes)[rank]
    exact = results({name: x.double() for name, x in whole.items()}, slice(0, steps), 1, "recurrent")
    alone = results(whole, slice(0, steps), 1, backend)
    found = results(
        {name: x if name == "weights" else x[:, :, rows] for name, x in whole.items()}, rows, processes, backend
    )
    distances = {}
    for name, x in found.items():
        here = slice(None) if name in ("final weights", "d weights") else rows
        distances[name] = distance(x, exact[name][:, :, here], exact[name])
        beside_one = distance(x, alone[name][:, :, here], exact[name])
        if beside_one > distance(alone[name], exact[name], exact[name]):
            distances[f"{name} beside one process"] = beside_one
    return distances


def distance(x: Tensor, y: Tensor, whole: Tensor) -> float:
    """The largest difference, in parts of the largest number of `whole`."""
    return float((x - y).abs().max()) / (float(whole.abs().max()) or 1.0) if x.numel() else 0.0


class CountedBytes:
    """Stands for `distributed.all_gather` and counts what this process sends."""

    def __init__(self) -> None:
        self.gather, self.sent = distributed.all_gather, 0

    def __call__(self, received: list[Tensor], sent: Tensor, **others: object) -> object:
        self.sent += sent.numel() * sent.element_size()
        return self.gather(received, sent, **others)  # type: ignore[arg-type]


def compare(rank: int, size: int) -> None:
    """Every kind of problem on these processes; ends with a line that names the first that does not agree."""
    for (dtype, tolerance), kind, backend in itertools.product(TOLERANCES.items(), KINDS, ("chunked", "native")):
        sent = []
        for steps in (67, 200):
            distributed.all_gather = counted = CountedBytes()
            found = errors(problem(steps, kind, dtype), rank, size, backend)
            distributed.all_gather = counted.gather
            sent.append(counted.sent)
            if bad := {name: error for name, error in found.items() if not error <= tolerance}:
                sys.exit(f"process {rank}: {dtype} {kind} {backend} {steps} steps: {bad}")
        if sent[0] != sent[1] or not sent[0]:
            sys.exit(f"process {rank}: {dtype} {kind} {backend}: bytes sent for 67 and 200 steps: {sent}")


if __name__ == "__main__":
    torch.set_num_threads(1)
    distributed.init_process_group("gloo")
    compare(distributed.get_rank(), distributed.get_world_size())
    distributed.destroy_process_group()
    print("agreed", flush=True)
