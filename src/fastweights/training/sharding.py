"""Fully sharded data parallelism (FSDP2): each of n processes keeps 1/n of every parameter, gradient and moment.

A layer's parameters are gathered just before it computes and let go just after it; its gradients are averaged and
split in one operation. What is saved, loaded or evaluated is whole, so a checkpoint does not say how many wrote it.
"""

import copy
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

OTHER_FORWARDS = ("attend", "write")
"""Methods of a layer that compute with its parameters, beside `forward`."""


def shard(module: nn.Module, device: torch.device, processes: int) -> Callable[[], None]:
    """Split the parameters of a module over the processes, in place and on their device, layer by layer.

    Returns what lets go of the group of processes, which caches of split tensors would hold until the program ends.
    """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    # States are values that nothing changes in place, so one that is a view of another tensor is no danger.
    warnings.filterwarnings("ignore", r"FSDP2-wrapped module .* returned a view tensor")
    mesh = init_device_mesh(device.type, (processes,))
    for parameter in module.parameters():
        if parameter.numel() == 0:
            parameter.requires_grad_(False)  # there is nothing to learn, and nothing to split
    for layers in [part for part in module.modules() if isinstance(part, nn.ModuleList)]:
        for layer in layers:
            fully_shard(layer, mesh=mesh)
            for name in OTHER_FORWARDS:
                if hasattr(layer, name):
                    register_fsdp_forward_method(layer, name)
    # What is left, such as the embeddings that begin and end a model, stays gathered from forward to backward.
    fully_shard(module, mesh=mesh)
    return getattr(mesh, "_pg_registry", {}).clear


def let_go(module: nn.Module) -> None:
    """Let go of parameters that were gathered for a backward pass that will not come."""
    from torch.distributed.fsdp import FSDPModule

    for part in module.modules():
        if isinstance(part, FSDPModule):
            part.reshard()


def whole(tensor: Tensor) -> Tensor:
    """The whole of a tensor, gathered by all processes together if it is split."""
    return tensor.full_tensor() if is_split(tensor) else tensor  # type: ignore[attr-defined]


def gathered(tensors: dict[str, Tensor], keep: bool) -> dict[str, Tensor]:
    """Whole tensors, one after the other; a process that does not keep them has helped to gather them."""
    found = {}
    for name, tensor in tensors.items():
        complete = whole(tensor)
        if keep:
            found[name] = complete.detach().cpu() if is_split(tensor) else tensor
    return found


def split_like(tensor: Tensor, example: Tensor) -> Tensor:
    """A whole tensor, which every process has, on the device of an example and split if that is."""
    tensor = tensor.to(example.device)
    if not is_split(example):
        return tensor
    from torch.distributed.tensor import distribute_tensor

    mesh, placements = example.device_mesh, example.placements  # type: ignore[attr-defined]
    return distribute_tensor(tensor, mesh, placements, src_data_rank=None)


def is_split(tensor: Tensor) -> bool:
    """True if each process has a part of this tensor."""
    return hasattr(tensor, "full_tensor")


class WholeModel:
    """A second model that has weights only while it is lent: those of a model that is split."""

    def __init__(self, model: nn.Module) -> None:
        """Take the model before it is split."""
        self.split = model
        memory = {id(x): nn.Parameter(x.new_empty(0), x.requires_grad) for x in model.parameters()}
        self.model = copy.deepcopy(model, memory)

    @contextmanager
    def lent(self) -> Iterator[nn.Module]:
        """The model with all its weights, for work in which processes do not have to keep step."""
        given = self.split.state_dict(keep_vars=True)
        parameters = dict(self.model.named_parameters())
        with torch.no_grad():
            for name, tensor in self.model.state_dict(keep_vars=True).items():
                if name in parameters:
                    tensor.data = whole(given[name]).detach()
                else:
                    tensor.copy_(given[name])
        try:
            yield self.model
        finally:
            for parameter in parameters.values():
                parameter.data = parameter.new_empty(0)
