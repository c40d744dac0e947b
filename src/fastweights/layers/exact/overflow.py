"""Raise as soon as finite inputs make a memory overflow: a memory that holds NaN or infinity never recovers.

On the CPU only: on a GPU each check would synchronise. Not inside torch.func, whose tensors have no values to look at.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from fastweights.kernels.transforms import active_transform
from fastweights.memory import FastWeightState

ADVICE = (
    "the keys are too large for the rule (β|φ(k)|² above 2 makes it diverge) or the inputs are too large to multiply; "
    "SumNormalisation() and L2Normalisation() keep keys and queries small"
)


_watched = ContextVar("_watched", default=True)


@contextmanager
def unwatched() -> Iterator[None]:
    """Check nothing inside, for callers that must not be interrupted and look at the results themselves."""
    token = _watched.set(False)
    try:
        yield
    finally:
        _watched.reset(token)


def refuse_overflow(x: Tensor, before: FastWeightState | None, y: Tensor | None, after: FastWeightState | None) -> None:
    """Raise a FloatingPointError if a sequence with finite inputs and state has an output or a state that is not."""
    if x.device.type != "cpu" or torch.compiler.is_compiling() or active_transform() != "none" or not _watched.get():
        return
    outgoing = (y, *_contents(after))
    if all(tensor is None or math.isfinite(tensor.detach().sum().item()) for tensor in outgoing):
        return
    overflowed = _finite_sequences(x, *_contents(before)) & ~_finite_sequences(*outgoing)
    if overflowed.any():
        sequences = overflowed.nonzero().flatten().tolist()
        raise FloatingPointError(
            f"the memory overflowed in sequences {sequences} of the batch although all inputs were finite: {ADVICE}"
        )


def _contents(state: FastWeightState | None) -> tuple[Tensor | None, ...]:
    return () if state is None else (state.weights, state.normaliser)


def _finite_sequences(*tensors: Tensor | None) -> Tensor:
    finite = [tensor.detach().isfinite().flatten(1).all(dim=1) for tensor in tensors if tensor is not None]
    return torch.stack(finite).all(dim=0)
