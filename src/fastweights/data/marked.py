"""Sequences with questions at marked steps: what all tasks of recall, question answering and images hand to a model."""

from typing import NamedTuple

import numpy as np
import torch
from jaxtyping import Bool, Int
from numpy.typing import NDArray
from torch import Tensor

NOTHING = -1
"""The target of a step that asks nothing."""


class MarkedSteps(NamedTuple):
    """Inputs of every step, the class to answer where a question is asked, and the group that the question is in."""

    inputs: Tensor
    targets: Int[Tensor, "b t"]
    groups: Int[Tensor, "b t"]

    @classmethod
    def of(cls, inputs: NDArray[np.generic], targets: NDArray[np.int64], groups: NDArray[np.int64]) -> "MarkedSteps":
        """The same from arrays."""
        return cls(*(torch.from_numpy(x) for x in (inputs, targets, groups)))

    @property
    def asked(self) -> Bool[Tensor, "b t"]:
        """Which steps ask something."""
        return self.targets != NOTHING

    def rows(self, chosen: slice) -> "MarkedSteps":
        """Some of the sequences."""
        return MarkedSteps(*(x[chosen] for x in self))
