"""The tensors of a model and of its Adam optimiser by name, for checkpoints."""

import hashlib

import torch
from torch import Tensor, nn

from fastweights.runs.checkpoint import CheckpointError, Tensors
from fastweights.training.sharding import split_like

MOMENTS = ("step", "exp_avg", "exp_avg_sq")


def model_tensors(model: nn.Module) -> dict[str, Tensor]:
    """Parameters and buffers that are saved; one that has several names appears once."""
    found: dict[str, Tensor] = {}
    for name, tensor in model.state_dict(keep_vars=True).items():
        if not any(tensor is other for other in found.values()):
            found[name] = tensor
    return found


def load_model(model: nn.Module, tensors: Tensors, source: str) -> None:
    """Load saved tensors into a model after checking that their names and shapes are the model's."""
    expected = model_tensors(model)
    if odd := sorted(expected.keys() ^ tensors.keys()):
        raise CheckpointError(f"{source}: a checkpoint of another model; only one of the two has {', '.join(odd[:4])}")
    for name, tensor in expected.items():
        if tensors[name].shape != tensor.shape or tensors[name].dtype != tensor.dtype:
            raise CheckpointError(
                f"{source}: a checkpoint of another model; {name} is {tuple(tensors[name].shape)} there, "
                f"{tuple(tensor.shape)} here"
            )
    with torch.no_grad():
        for name, tensor in expected.items():
            tensor.copy_(split_like(tensors[name], tensor))


def digest_of_weights(weights: Tensors) -> str:
    """Changes with any number of any tensor."""
    digest = hashlib.sha256()
    for name in sorted(weights):
        tensor = weights[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.numpy().tobytes())
    return digest.hexdigest()[:24]


def optimiser_tensors(optimiser: torch.optim.Adam, model: nn.Module) -> dict[str, Tensor]:
    """`parameter.moment` → tensor, for the parameters that have been updated."""
    return {
        f"{name}.{moment}": optimiser.state[parameter][moment]
        for name, parameter in model.named_parameters()
        if parameter in optimiser.state
        for moment in MOMENTS
    }


def load_optimiser(optimiser: torch.optim.Adam, model: nn.Module, tensors: Tensors, source: str) -> None:
    """Put saved moments into an optimiser."""
    parameters = dict(model.named_parameters())
    updated = {name.rpartition(".")[0] for name in tensors}
    if updated - parameters.keys() or tensors.keys() != {f"{name}.{moment}" for name in updated for moment in MOMENTS}:
        raise CheckpointError(f"{source}: optim.safetensors is that of another model")
    for name in updated:
        parameter = parameters[name]
        moments = {moment: tensors[f"{name}.{moment}"] for moment in MOMENTS}
        expected = {"step": ((), torch.float32)} | dict.fromkeys(MOMENTS[1:], (tuple(parameter.shape), parameter.dtype))
        if any((tuple(moments[moment].shape), moments[moment].dtype) != expected[moment] for moment in MOMENTS):
            raise CheckpointError(f"{source}: optim.safetensors is that of another model, {name} has another shape")
        optimiser.state[parameter] = {
            moment: x.to(parameter.device) if moment == "step" else split_like(x, parameter)
            for moment, x in moments.items()
        }
