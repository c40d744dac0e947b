"""The C++ kernel for the CPU (kernels/native/scan.py) as a backend."""

import torch

from fastweights.kernels.native import library
from fastweights.kernels.native import scan as kernel
from fastweights.kernels.native.step import step
from fastweights.memory.backend import Call
from fastweights.shapes import Keys, PerKey, PerStep, Queries, Values, Weights

__all__ = ["cannot_serve", "scan", "starts_empty", "step", "suits", "unavailable"]


starts_empty = True


def unavailable() -> str | None:
    """Why this backend cannot run here at all; None if it can."""
    return library.unavailable()


def cannot_serve(call: Call) -> str | None:
    """Why this backend cannot serve the call; None if it can."""
    if call.device.type != "cpu":
        return f"it runs on the CPU only, got tensors on {call.device}"
    if torch.promote_types(call.dtype, torch.float32) not in library.ELEMENT_BYTES:
        return f"it computes in float32 and float64, got {call.dtype}"
    if call.transform == "derivative":
        return "it has no rule for torch.func and forward-mode AD; possible: backend='recurrent', which has them all"
    return None


def suits(call: Call) -> bool:
    """True: no other backend is faster where this one serves."""
    return True


def scan(
    queries: Queries,
    keys: Keys,
    values: Values,
    erase: PerStep,
    write: PerStep,
    weights: Weights | None,
    decay: PerStep | PerKey | None = None,
    lookups: Keys | None = None,
) -> tuple[Values, Weights]:
    """W_t = W_{t-1} diag(g_t) (I - a_t e_t k_tᵀ) + b_t v_t k_tᵀ,   y_t = W_t q_t."""
    inputs = (queries, keys, values, erase, write, weights, decay, lookups)
    differentiable = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    return kernel.run(*inputs, differentiable)
