"""The Triton kernels for NVIDIA and AMD GPUs (kernels/triton/) as a backend."""

import torch

from fastweights.kernels.triton import availability
from fastweights.memory.backend import Call
from fastweights.shapes import Keys, PerKey, PerStep, Queries, Values, Weights

takes_low_precision = True
"""Queries, keys and values of 16 bits come as they are: half of the bytes to load."""


def unavailable() -> str | None:
    """Why this backend cannot run here at all; None if it can."""
    return availability.unavailable()


def cannot_serve(call: Call) -> str | None:
    """Why this backend cannot serve the call; None if it can."""
    if (reason := availability.wrong_device(call.device)) is not None:
        return reason
    if call.dtype not in availability.DTYPES:
        return f"it computes with float32, bfloat16 and float16, got {call.dtype}"
    if call.decay == "channel":
        return "it has no decay per channel; possible: backend='chunked'"
    if call.lookups:
        return "it has no lookups of their own; possible: backend='chunked'"
    if call.transform != "none":
        return "it has no rule for torch.func and forward-mode AD; possible: backend='recurrent', which has them all"
    return None


def suits(call: Call) -> bool:
    """False for CPU tensors, which only the interpreter serves."""
    return call.device.type != "cpu"


def scan(
    queries: Queries,
    keys: Keys,
    values: Values,
    erase: PerStep,
    write: PerStep,
    weights: Weights,
    decay: PerStep | PerKey | None = None,
    lookups: Keys | None = None,
) -> tuple[Values, Weights]:
    """W_t = W_{t-1} g_t (I - a_t k_t k_tᵀ) + b_t v_t k_tᵀ,   y_t = W_t q_t."""
    inputs = (queries, keys, values, erase, write, weights, decay)
    differentiable = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    if keys.shape[2] == 1 and not differentiable:
        from fastweights.kernels.triton.step import step

        return step(*inputs)
    from fastweights.kernels.triton.scan import run

    return run(*inputs)
