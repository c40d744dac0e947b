"""Dot products of DPFP features with those of one query, without building either (docs/retrieval.md#dpfp-kernel).

φ multiplies pairs of rectified coordinates, so φ(k)·φ(q) is a quadratic form of what k and q have in common:
    φ(k)·φ(q) = ½ uᵀ C u   with   u = relu(k ⊙ q).
Coordinate i stands at place i of r = relu([x, -x]) if q_i > 0 and at place i + d if not, and C_ij counts how often
shifts 1 … ν bring the places of i and j together. The cost is that of d features, whatever ν is.
"""

from functools import lru_cache
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import FunctionCtx

from fastweights.kernels.transforms import once_differentiable


def dpfp_products(keys: Float[Tensor, "b t d"], query: Float[Tensor, "b d"], nu: int) -> Float[Tensor, "b t"]:
    """φ(k_t)·φ(q) for every step."""
    products: Tensor = _QuadraticForm.apply(keys, query, coincidences(query, nu))
    return products


def coincidences(query: Float[Tensor, "b d"], nu: int) -> Float[Tensor, "b d d"]:
    """C, symmetric: the number of shifts 1 … ν that bring coordinate i of r onto coordinate j or j onto i."""
    same_sign, other_sign = _counts(query.shape[-1], nu).to(query.dtype)
    signs = query.detach().sign()
    return (same_sign + other_sign) / 2 + (same_sign - other_sign) / 2 * signs[:, :, None] * signs[:, None, :]


@lru_cache(maxsize=64)
def _counts(dim: int, nu: int) -> Float[Tensor, "2 d d"]:
    """C for coordinates of the query that have the same sign, and for those that have not."""
    index = torch.arange(dim)
    distance = index[:, None] - index
    distances = torch.stack([distance, distance + dim]) % (2 * dim)
    onto, back = ((d >= 1) & (d <= nu) for d in (distances, 2 * dim - distances))
    return onto.float() + back.float()


class _QuadraticForm(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, keys: Tensor, query: Tensor, counts: Tensor) -> Tensor:
        common = (keys * query[:, None]).relu_()
        slopes = common @ counts
        products = torch.linalg.vecdot(common, slopes) / 2
        ctx.save_for_backward(keys, query, slopes.mul_(common.sign_()))
        return products

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_products: Tensor) -> tuple[Tensor, Tensor, None]:
        keys, query, slopes = ctx.saved_tensors
        d_common = slopes * d_products[..., None]
        d_query = torch.linalg.vecdot(d_common, keys, dim=1)
        return d_common.mul_(query[:, None]), d_query, None
