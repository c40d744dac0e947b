"""Several processes that train one model (torchrun; replicas or shards), or the one process there usually is."""

import gc
import inspect
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, distributed, nn
from torch.distributed.rendezvous import rendezvous
from torch.nn.parallel import DistributedDataParallel

from fastweights.training.sharding import let_go, shard

CPU = torch.device("cpu")
# Buffers are the same in every process anyway; since torch 2.13 the argument has another name.
OPTIONS = inspect.signature(DistributedDataParallel).parameters
KEEP_BUFFERS: dict[str, Any] = {
    "forward_sync_buffers" if "forward_sync_buffers" in OPTIONS else "broadcast_buffers": False
}


@dataclass(frozen=True)
class Processes:
    """The processes of a run, seen from this one."""

    rank: int = 0
    size: int = 1
    device: torch.device = CPU
    _averaging: dict[nn.Module, nn.Module] = field(default_factory=dict, repr=False, compare=False)
    _endings: list[Callable[[], None]] = field(default_factory=list, repr=False, compare=False)

    @classmethod
    @contextmanager
    def join(cls, device: str = "auto") -> "Iterator[Processes]":
        """Join the processes that torchrun describes in the environment: gloo on CPUs, NCCL on GPUs."""
        size, rank, local_rank = (
            int(os.environ.get(name, default)) for name, default in (("WORLD_SIZE", 1), ("RANK", 0), ("LOCAL_RANK", 0))
        )
        place = cls.device_named(device)
        if place == torch.device("cuda"):
            place = torch.device("cuda", local_rank)
        if size == 1:
            yield cls(device=place)
            return
        if place.type == "cuda":
            torch.cuda.set_device(place)
        # DistributedDataParallel imports this; imported later, its default arguments would hold the group for ever.
        from torch.distributed.nn import functional  # noqa: F401

        # torchrun keeps one store for all its restarts: without a prefix, processes that start again would look for
        # each other at the addresses of those that died.
        attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
        store = distributed.PrefixStore(attempt, next(rendezvous("env://"))[0])  # type: ignore[attr-defined]
        backend = "nccl" if place.type == "cuda" else "gloo"
        distributed.init_process_group(backend, store=store, rank=rank, world_size=size)
        processes = cls(rank, size, place)
        try:
            yield processes
            # Nobody leaves while another may still be talking to it.
            distributed.barrier()
        except RuntimeError as error:
            if "gloo" in str(error) or isinstance(error, distributed.DistError):
                raise ConnectionError(f"process {rank} stops: another process of this run has ended") from error
            raise
        finally:
            # The group ends its threads when nothing holds it any more. One that lived on until the interpreter is
            # gone could abort the process.
            processes._averaging.clear()
            for end in processes._endings:
                end()
            gc.collect()
            distributed.destroy_process_group()

    @staticmethod
    def device_named(name: str) -> torch.device:
        """A device of this machine by its name in torch; `auto` is a GPU if there is one."""
        if name == "auto":
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
        gpus = [f"cuda:{number}" for number in range(torch.cuda.device_count())]
        possible = ["auto", "cpu", *(["cuda", *gpus] if gpus else [])]
        try:
            device = torch.device(name)
            # GPUs are only counted: a process that uses one, if only to try it, takes memory there until it ends.
            there = str(device) in possible if device.type == "cuda" else torch.zeros(1, device=device).item() == 0
        except (RuntimeError, AssertionError, ImportError):
            there = False
        if not there:
            raise ValueError(f"device: {name!r} is none of this machine; possible: {', '.join(possible)}")
        return device

    @property
    def first(self) -> bool:
        """True for the one process that writes files."""
        return self.rank == 0

    def shard(self, module: nn.Module) -> None:
        """Leave each process its share of the module's parameters; one process alone has all of them."""
        if self.size > 1:
            self._endings.append(shard(module, self.device, self.size))
            self._averaging[module] = module

    def is_sharded(self, module: nn.Module) -> bool:
        """True if processes meet while the module computes, so that none may leave in the middle."""
        return self._averaging.get(module) is module

    def give_up(self, module: nn.Module) -> None:
        """Forget a forward that has no backward."""
        if self.is_sharded(module):
            let_go(module)

    def averaging(self, module: nn.Module) -> nn.Module:
        """The module with gradients averaged over all processes after backward; call it, but do not keep it."""
        if self.size == 1:
            return module
        if module not in self._averaging:
            self._averaging[module] = DistributedDataParallel(module, **KEEP_BUFFERS)
        return self._averaging[module]

    def without_averaging(self, module: nn.Module) -> AbstractContextManager[None]:
        """Gradients of a backward inside stay on this process, to be averaged with the next one's."""
        wrapped = self.averaging(module)
        return wrapped.no_sync() if isinstance(wrapped, DistributedDataParallel) else nullcontext()

    def any_of(self, *flags: bool) -> list[bool]:
        """For each flag whether it is set in any process: all must know before one acts on it."""
        if self.size == 1:
            return list(flags)
        numbers = torch.tensor(flags, dtype=torch.float32, device=self.device)
        distributed.all_reduce(numbers, op=distributed.ReduceOp.MAX)
        return [bool(number) for number in numbers.tolist()]

    def mean(self, value: float) -> float:
        """The mean over the processes."""
        if self.size == 1:
            return value
        number = torch.tensor(value, dtype=torch.float64, device=self.device)
        distributed.all_reduce(number)
        return float(number) / self.size

    def broadcast(self, number: int) -> int:
        """A number that the first process knows."""
        if self.size == 1:
            return number
        shared = torch.tensor(number, dtype=torch.int64, device=self.device)
        distributed.broadcast(shared, src=0)
        return int(shared)

    def gather(self, tensors: dict[str, Tensor]) -> Sequence[dict[str, Tensor]]:
        """The tensors of every process, in the order of their ranks; all have the same shapes."""
        if self.size == 1:
            return [tensors]
        gathered: list[dict[str, Tensor]] = [{} for _ in range(self.size)]
        for name, tensor in tensors.items():
            # Not every backend sends booleans.
            sent = (tensor.to(torch.uint8) if tensor.dtype == torch.bool else tensor).contiguous()
            received = [torch.empty_like(sent) for _ in range(self.size)]
            distributed.all_gather(received, sent)
            for part, copy in zip(gathered, received, strict=True):
                part[name] = copy.to(tensor.dtype)
        return gathered
