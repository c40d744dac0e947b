"""Starting a kernel: its arguments are found by their names."""

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

import torch
from torch import Tensor

from fastweights.kernels.triton.configuration import Configuration


def launch(
    kernel: Any, grid: tuple[int, ...], chosen: Configuration, tensors: Mapping[str, Tensor], **others: int
) -> None:
    """Run a kernel on the device of its tensors.

    A parameter is a tensor, the strides of one (`keys_by`), a number of the configuration, or one of the others.
    """
    strides = {f"{name}_by": x.stride() for name, x in tensors.items()}
    known = {**tensors, **strides, **others, **chosen.constants()}
    arguments = {name: known[name] for name in kernel.arg_names}
    device = next(iter(tensors.values())).device
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        kernel[grid](**arguments, num_warps=chosen.warps, num_stages=chosen.stages)
