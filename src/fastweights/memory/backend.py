"""The interface of a backend: it computes `fast_weight_scan`, and it may refuse a call."""

from typing import Any, Literal, NamedTuple, Protocol

import torch
from torch import Tensor

from fastweights.kernels.transforms import Transform, active_transform
from fastweights.shapes import Keys, PerKey, PerStep, Queries, Values, Weights


class Call(NamedTuple):
    """The properties of a call that a backend may refuse."""

    device: torch.device
    dtype: torch.dtype
    steps: int
    decay: Literal["none", "head", "channel"] = "none"
    lookups: bool = False
    differentiable: bool = False
    transform: Transform = "none"

    @classmethod
    def of(cls, keys: Tensor, decay: Tensor | None, lookups: Tensor | None, differentiable: bool) -> "Call":
        """The call with these arguments."""
        kind: Literal["none", "head", "channel"] = "none"
        if decay is not None:
            kind = "head" if decay.dim() == 3 else "channel"
        return cls(
            keys.device, keys.dtype, keys.shape[2], kind, lookups is not None, differentiable, active_transform()
        )


class Backend(Protocol):
    """A module of this package that computes the operator, for the calls that it can serve."""

    def unavailable(self) -> str | None:
        """Why this backend cannot run here at all; None if it can."""

    def cannot_serve(self, call: Call) -> str | None:
        """Why this backend cannot serve the call; None if it can."""

    def suits(self, call: Call) -> bool:
        """False if `auto` should prefer a later backend of the table for such a call."""

    def scan(
        self,
        queries: Queries,
        keys: Keys,
        values: Values,
        erase: PerStep,
        write: PerStep,
        weights: Any,
        decay: PerStep | PerKey | None = None,
        lookups: Keys | None = None,
    ) -> tuple[Values, Weights]:
        """All reads and the final weights; every tensor has the type of the weights, which is at least float32.

        No weights (None) come only to backends with `starts_empty`.
        """
