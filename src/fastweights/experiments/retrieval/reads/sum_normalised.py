"""Sum normalisation of features that are never negative, in a few passes (Eq. 29)."""

from typing import Any

import torch
from torch import Tensor

from fastweights.kernels.transforms import once_differentiable
from fastweights.shapes import Features


def sum_normalised(features: Features) -> Features:
    """φ' = φ / Σ_j φ_j, and zero where the sum vanishes: what `SumNormalisation` makes of features without signs.

    That class scales first, so that no sum can overflow; here the features of a model of one layer are far from it.
    """
    normalised: Tensor = _DivideBySum.apply(features)
    return normalised


class _DivideBySum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, features: Tensor) -> Tensor:
        totals = features.sum(dim=-1, keepdim=True)
        # Dividing by less would overflow in the gradient.
        totals.masked_fill_(totals <= torch.finfo(features.dtype).tiny ** 0.75, torch.inf)
        normalised = features / totals
        ctx.save_for_backward(normalised, totals)
        return normalised

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_normalised: Tensor) -> Tensor:
        normalised, totals = ctx.saved_tensors
        return (d_normalised - torch.linalg.vecdot(d_normalised, normalised)[..., None]).div_(totals)
