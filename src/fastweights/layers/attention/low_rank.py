"""A projection of full rank, or one that goes through few components."""

from torch import nn

from fastweights.layers.exact.batch_invariant_linear import BatchInvariantLinear


def linear(inputs: int, outputs: int, rank: int | None = None, bias: bool = False) -> nn.Module:
    """y = W x + b, or y = W_up W_down x + b if a rank is given."""
    if rank is None:
        return BatchInvariantLinear(inputs, outputs, bias=bias)
    return nn.Sequential(BatchInvariantLinear(inputs, rank, bias=False), BatchInvariantLinear(rank, outputs, bias=bias))
