"""Errors where finite inputs first make something that is not: nothing later could repair it.

Looked for on the CPU only: on a GPU the questions alone would make the host wait.
"""

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor
from torch.linalg import vector_norm

from fastweights.memory import FastWeightState

ADVICE = (
    "the keys are too large for the rule (β|φ(k)|² above 2 makes it diverge) or what came in is too large to multiply; "
    "SumNormalisation() and L2Normalisation() keep keys and queries small"
)


_gradients_watched = ContextVar("gradients_watched", default=True)


@contextmanager
def gradients_unwatched() -> Iterator[None]:
    """Forward passes in here never fail in their backward pass, for callers who look at all gradients themselves."""
    token = _gradients_watched.set(False)
    try:
        yield
    finally:
        _gradients_watched.reset(token)


def refuse_overflow(x: Tensor, before: FastWeightState, y: Tensor, after: FastWeightState) -> None:
    """A FloatingPointError if any sequence that came in finite went out otherwise."""
    if not _looks(x):
        return
    outgoing = (y, after.weights, after.normaliser)
    if all(tensor is None or _sum_is_finite(tensor) for tensor in outgoing):
        return
    overflowed = _finite_rows(x, before.weights, before.normaliser) & ~_finite_rows(*outgoing)
    if overflowed.any():
        rows = overflowed.nonzero().flatten().tolist()
        raise FloatingPointError(
            f"the memory overflowed in sequences {rows} of the batch although all that came in was finite: {ADVICE}"
        )


def refuse_gradient_overflow(x: Tensor, projected: Tensor, y: Tensor, after: FastWeightState) -> None:
    """A FloatingPointError in the backward pass if finite gradients come in and others would go out.

    In float16 nothing is said: there, loss scaling finds its scale by overflows.
    """
    if not (_looks(x) and _gradients_watched.get() and projected.requires_grad and y.requires_grad):
        return
    if x.dtype == torch.float16:
        return
    arrived: list[bool] = []

    def arriving(gradient: Tensor | None) -> None:
        # None: this result went unused.
        arrived.append(gradient is None or _sum_is_finite(gradient))

    def leaving(gradient: Tensor) -> None:
        if not gradient.numel() or not all(arrived) or not arrived:
            return
        # The gradient of the projection's matrix sums up products with x: it is bounded by the product of their norms
        # (Cauchy and Schwarz). That is quick, but large numbers overflow when squared, so that another bound decides.
        if (vector_norm(gradient) * vector_norm(x.detach())).isfinite() or not _sum_is_finite(x):
            return
        if not (vector_norm(gradient, 1) * vector_norm(x.detach(), torch.inf)).isfinite():
            raise FloatingPointError(f"the gradients overflowed although all that came in was finite: {ADVICE}")

    projected.register_hook(leaving)
    for tensor in (y, after.weights):
        if tensor.requires_grad:
            tensor.register_hook(arriving)


def _looks(x: Tensor) -> bool:
    return x.device.type == "cpu" and not torch.compiler.is_compiling()


def _sum_is_finite(tensor: Tensor) -> bool:
    return math.isfinite(tensor.detach().sum().item())


def _finite_rows(*tensors: Tensor | None) -> Tensor:
    rows = [tensor.detach().isfinite().flatten(1).all(dim=1) for tensor in tensors if tensor is not None]
    return torch.stack(rows).all(dim=0)
