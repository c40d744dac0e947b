"""The error at the step where finite inputs first make something that is not: nothing later could repair it."""

import torch
from torch import Tensor

from fastweights.memory import FastWeightState


def refuse_overflow(x: Tensor, before: FastWeightState, y: Tensor, after: FastWeightState) -> None:
    """A FloatingPointError if any sequence that came in finite went out otherwise.

    Looked for on the CPU only: on a GPU the question alone would make the host wait.
    """
    if torch.compiler.is_compiling() or x.device.type != "cpu":
        return
    outgoing = (y, after.weights, after.normaliser)
    if all(tensor is None or bool(tensor.detach().sum().isfinite()) for tensor in outgoing):
        return
    overflowed = _finite_rows(x, before.weights, before.normaliser) & ~_finite_rows(*outgoing)
    if overflowed.any():
        rows = overflowed.nonzero().flatten().tolist()
        raise FloatingPointError(
            f"the fast weights overflowed in sequences {rows} of the batch although all that came in was finite: the "
            "keys are too large for the rule (β|φ(k)|² above 2 makes it diverge) or what came in is too large to "
            "multiply; SumNormalisation() and L2Normalisation() keep keys and queries small"
        )


def _finite_rows(*tensors: Tensor | None) -> Tensor:
    rows = [tensor.detach().isfinite().flatten(1).all(dim=1) for tensor in tensors if tensor is not None]
    return torch.stack(rows).all(dim=0)
