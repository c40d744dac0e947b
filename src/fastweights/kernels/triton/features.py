"""Feature maps in one pass that saves only x: φ(x), or φ(x) / Σ_j φ(x)_j, for DPFP and ELU + 1."""

from typing import Any

import torch
from torch import Tensor

from fastweights.kernels.native.features import CompiledMap
from fastweights.kernels.transforms import differentiated_again
from fastweights.kernels.triton.configuration import Configuration
from fastweights.kernels.triton.feature_kernels import BACKWARD, FORWARD
from fastweights.kernels.triton.launch import launch

ROWS = 4
"""Vectors for each program."""
MAPS = tuple(FORWARD)
"""The maps that have kernels here."""

SIZES = Configuration(chunk=16, block_k=16, block_v=16, precision="tf32", exact="ieee")
"""Of these only the number of warps matters here."""
_definitions: dict[str, CompiledMap] = {}


def fused(compiled: CompiledMap, x: Tensor, parameters: tuple[int, ...], divide_by_sum: bool) -> Tensor:
    """φ(x), or φ(x) / Σ_j φ(x)_j; zero where all features vanish."""
    _definitions[compiled.name] = compiled
    width = compiled.width(x.shape[-1], *parameters)
    mapped: Tensor = triton_features(
        x.reshape(-1, x.shape[-1]), compiled.name, width, parameters[0] if parameters else 0, divide_by_sum
    )
    return mapped.view(*x.shape[:-1], width)


def _run(kernel: Any, x: Tensor, nu: int, divide_by_sum: bool, **tensors: Tensor) -> None:
    width = tensors["features"].shape[-1]
    if 0 in (*x.shape, width):
        return
    given = {"x": x.contiguous()} | tensors
    numbers: dict[str, Any] = {"rows": len(x), "dim": x.shape[1], "nu": nu, "DIVIDES": divide_by_sum, "ROWS": ROWS}
    numbers["DIM"] = 1 << (x.shape[1] - 1).bit_length()
    # Products that are not divided have to fit into the type of the result.
    largest = torch.finfo(torch.float32 if divide_by_sum else x.dtype).max ** 0.5
    numbers |= {"largest": largest, "vanishing": torch.finfo(torch.float32).tiny ** 0.75}
    launch(kernel, (-(-len(x) // ROWS),), SIZES, given, **numbers)


@torch.library.custom_op("fastweights::triton_features", mutates_args=())
def triton_features(x: Tensor, name: str, width: int, nu: int, divide_by_sum: bool) -> Tensor:
    """The features of every row of x."""
    features = x.new_empty(len(x), width)
    _run(FORWARD[name], x, nu, divide_by_sum, features=features)
    return features


@triton_features.register_fake
def _(x: Tensor, name: str, width: int, nu: int, divide_by_sum: bool) -> Tensor:
    return x.new_empty(x.shape[0], width)


@torch.library.custom_op("fastweights::triton_features_backward", mutates_args=())
def triton_features_backward(gradient: Tensor, x: Tensor, name: str, nu: int, divide_by_sum: bool) -> Tensor:
    """The gradient of x from that of its features."""
    result = torch.zeros_like(x, memory_format=torch.contiguous_format)
    _run(BACKWARD[name], x, nu, divide_by_sum, features=gradient.contiguous(), result=result)
    return result


@triton_features_backward.register_fake
def _(gradient: Tensor, x: Tensor, name: str, nu: int, divide_by_sum: bool) -> Tensor:
    return torch.empty_like(x, memory_format=torch.contiguous_format)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    x, ctx.name, _, ctx.nu, ctx.divide_by_sum = inputs
    ctx.save_for_backward(x)


def _differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    (x,) = ctx.saved_tensors
    if differentiated_again(gradient):
        compiled = _definitions[ctx.name]
        with torch.enable_grad():
            features = compiled.definition(x, *([ctx.nu] if ctx.nu else []))
            if ctx.divide_by_sum:
                features = features / features.sum(dim=-1, keepdim=True)
        found = torch.autograd.grad(features, x, gradient, create_graph=torch.is_grad_enabled())
        return *found, None, None, None, None
    found = triton_features_backward(gradient, x, ctx.name, ctx.nu, ctx.divide_by_sum)
    return found, None, None, None, None


triton_features.register_autograd(_differentiate, setup_context=_save)
