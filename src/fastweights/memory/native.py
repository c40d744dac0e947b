"""The C++ kernel behind torch.library custom operators."""

import torch


def unavailable() -> str | None:
    """Why this backend cannot run here at all; None if it can."""
    return "the native kernel is not part of this build"


def cannot_serve(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why this backend cannot serve tensors of this kind; None if it can."""
    return unavailable()
