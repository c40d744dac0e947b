"""Whether Triton can run here, asked without importing it."""

import os
import re
from importlib.util import find_spec
from pathlib import Path

import torch

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
"""Of queries, keys and values; weights are kept in float32."""
OLDEST = (3, 4)
"""The first version of Triton that compiles these kernels. Old versions of torch bring older ones."""


def _find() -> tuple[int, ...] | None:
    """The version of Triton by its source, because its package has another name with each maker of wheels."""
    spec = find_spec("triton")
    if spec is None:
        return None
    text = Path(spec.origin).read_text(encoding="utf-8") if spec.origin else ""
    found = re.search(r"__version__ = ['\"](\d+)\.(\d+)", text)
    return (int(found[1]), int(found[2])) if found else (0, 0)


# Looked for once, here: torch.compile warns of a cached function in what it traces.
_FOUND = _find()


def installed() -> tuple[int, ...] | None:
    """The version of Triton, None if it is not installed."""
    return _FOUND


def interpreted() -> bool:
    """Whether kernels run in Triton's interpreter, on CPU tensors; Triton reads this when it is imported."""
    return os.environ.get("TRITON_INTERPRET", "") == "1"


def unavailable() -> str | None:
    """Why no kernel can run here; None if they can."""
    version = installed()
    if version is None:
        return "Triton is not installed; possible: pip install 'fastweights[gpu]'"
    if version < OLDEST:
        shown, oldest = (".".join(map(str, numbers)) for numbers in (version, OLDEST))
        return f"it needs Triton {oldest} or later, got {shown}; a later torch brings it"
    if not interpreted() and not torch.cuda.is_available():
        return "torch sees no NVIDIA or AMD GPU; TRITON_INTERPRET=1 runs the kernels on CPU tensors, slowly"
    return None


def wrong_device(device: torch.device) -> str | None:
    """Why tensors of this device cannot be served; None if they can."""
    if interpreted():
        return None if device.type == "cpu" else f"TRITON_INTERPRET=1 serves CPU tensors only, got tensors on {device}"
    return None if device.type == "cuda" else f"it runs on NVIDIA and AMD GPUs, got tensors on {device}"
