"""A linear layer whose result for one row does not depend on the number of other rows."""

import torch
from torch import Tensor, nn
from torch.nn.functional import linear, pad
from typing_extensions import override

MIN_ROWS = 16
"""Below this many rows, matrix products take other code paths, which round differently."""


class BatchInvariantLinear(nn.Linear):
    """y = W x + b, with few rows filled up to `MIN_ROWS`: a sequence and its padded form agree to the last bit.

    Single steps are left alone: they are what generation consists of, and a matrix-vector product is three times
    faster.
    """

    @override
    def forward(self, x: Tensor) -> Tensor:
        count = x.shape[:-1].numel()
        if torch.compiler.is_compiling() or x.dim() < 3 or x.shape[-2] <= 1 or not 0 < count < MIN_ROWS:
            return super().forward(x)
        rows = pad(x.flatten(0, -2), (0, 0, 0, MIN_ROWS - count))
        return linear(rows, self.weight, self.bias)[:count].unflatten(0, x.shape[:-1])
