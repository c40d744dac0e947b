"""A projection of full rank, or one that goes through few components."""

from torch import nn


def linear(inputs: int, outputs: int, rank: int | None = None, bias: bool = False) -> nn.Module:
    """y = W x + b, or y = W_up W_down x + b if a rank is given."""
    if rank is None:
        return nn.Linear(inputs, outputs, bias=bias)
    return nn.Sequential(nn.Linear(inputs, rank, bias=False), nn.Linear(rank, outputs, bias=bias))
