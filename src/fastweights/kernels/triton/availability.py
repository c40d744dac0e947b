"""Whether Triton can run here, asked without importing it."""

import os
from importlib.util import find_spec

import torch

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
"""Of queries, keys and values; weights are kept in float32."""


# Looked for once, here: torch.compile warns of a cached function in what it traces.
_FOUND = find_spec("triton") is not None


def installed() -> bool:
    """Whether Triton is installed."""
    return _FOUND


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, on CPU tensors; Triton reads this when it is imported."""
    return os.environ.get("TRITON_INTERPRET", "") == "1"


def unavailable() -> str | None:
    """Why no kernel can run here; None if they can."""
    if not installed():
        return "Triton is not installed; possible: pip install 'fastweights[gpu]'"
    if not interpreted() and not torch.cuda.is_available():
        return "torch sees no NVIDIA or AMD GPU; TRITON_INTERPRET=1 runs the kernels on CPU tensors, slowly"
    return None


def wrong_device(device: torch.device) -> str | None:
    """Why tensors of this device cannot be served; None if they can."""
    if interpreted():
        return None if device.type == "cpu" else f"TRITON_INTERPRET=1 serves CPU tensors only, got tensors on {device}"
    return None if device.type == "cuda" else f"it runs on NVIDIA and AMD GPUs, got tensors on {device}"
