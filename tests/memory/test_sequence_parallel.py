"""Stretches of a sequence on several processes give what one process gives; what they exchange does not grow."""

import inspect
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import stretches
import torch
from stretches import KINDS, TOLERANCES, distance, errors, problem, results
from torch import Tensor, distributed

from conditioning import Nudge, ill_conditioned
from fastweights.memory import sequence_parallel
from fastweights.memory.sequence_parallel import sequence_parallel_scan


class Threads:
    """Threads that exchange states as processes do, and count what they send."""

    def __init__(self, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count, self.own = count, threading.local()
        self.slots: list[Tensor] = [torch.empty(0)] * count
        self.barrier = threading.Barrier(count)
        self.sent: list[int] = []
        monkeypatch.setattr(distributed, "is_initialized", lambda: True)
        monkeypatch.setattr(distributed, "get_rank", lambda group: self.own.rank)
        monkeypatch.setattr(sequence_parallel, "gather_states", self.gather)

    def gather(self, state: Tensor, group: None) -> list[Tensor]:
        self.slots[self.own.rank] = state
        self.sent.append(state.numel() * state.element_size())
        self.barrier.wait(timeout=60)
        states = list(self.slots)
        self.barrier.wait(timeout=60)
        return states

    def errors(self, whole: stretches.Tensors) -> list[dict[str, float]]:
        def work(rank: int) -> dict[str, float]:
            self.own.rank = rank
            return errors(whole, rank, self.count, "recurrent")

        with ThreadPoolExecutor(self.count) as pool:
            return list(pool.map(work, range(self.count)))


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_three_stretches_are_one_sequence(
    kind: tuple[str, bool, bool], dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    for steps in (0, 1, 19):
        for found in Threads(3, monkeypatch).errors(problem(steps, kind, dtype)):
            assert max(found.values()) <= TOLERANCES[dtype], found


def test_what_is_exchanged_does_not_grow_with_the_sequence(monkeypatch: pytest.MonkeyPatch) -> None:
    sent = []
    for steps in (8, 64):
        threads = Threads(2, monkeypatch)
        threads.errors(problem(steps, ("head", False, True), torch.float32))
        sent.append(sorted(threads.sent))
    b, h, k, v = 2, 3, 5, 4
    assert sent[0] == sent[1] == sorted(2 * [4 * b * h * (v + k) * k, 4 * b * h * 2 * v * k])


def test_without_a_group_it_says_so() -> None:
    with pytest.raises(ValueError, match="group: no processes have joined"):
        sequence_parallel_scan(**problem(3, ("none", False, False), torch.float32))


def test_weights_that_do_not_fit_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distributed, "is_initialized", lambda: True)
    given = problem(3, ("none", False, True), torch.float32)
    given["weights"] = given["weights"][:1]
    # The type checker of the tests refuses them first.
    with pytest.raises((ValueError, TypeError), match="weights"):
        sequence_parallel_scan(**given)
    with pytest.raises(ValueError, match=r"weights: expected shape \(2, 3, 4, 5\), got \(1, 3, 4, 5\)"):
        inspect.unwrap(sequence_parallel_scan)(**given)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [67, 200])
def test_the_bound_can_judge_every_result(steps: int) -> None:
    for kind in KINDS:
        given = problem(steps, kind, torch.float32)

        def exact(nudge: Nudge, given: stretches.Tensors = given) -> stretches.Tensors:
            return results({name: nudge(x) for name, x in given.items()}, slice(0, steps), 1, "recurrent")

        bounds = dict.fromkeys(exact(Tensor.double), TOLERANCES[torch.float32])
        assert not ill_conditioned(bounds, exact, lambda name, x, y, bound: distance(x, y, y) <= bound), kind


@pytest.mark.slow
@pytest.mark.parametrize("processes", [2, 3])
def test_processes_agree_with_one(processes: int) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    done = subprocess.run(
        [*command, str(Path(stretches.__file__))], capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("agreed") == processes
