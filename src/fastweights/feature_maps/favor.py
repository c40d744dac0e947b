"""FAVOR+, the random features of the Performer (Choromanski et al., 2021; Sec. 5.3)."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor
from typing_extensions import override

from fastweights.feature_maps.base import RandomFeatureMap
from fastweights.kernels.native.attention import AttentionKernel
from fastweights.shapes import Features, Projection, Vectors

Kind = Literal["exp", "relu"]

LARGEST = 1e12
"""Beyond this, components of a vector count as this large (docs/math.md#extremes)."""


@dataclass(frozen=True)
class Favor(RandomFeatureMap):
    """φ(x) = exp(-|x|²/2) / √(2m) · [exp(Rx), exp(-Rx)]  with random rows of R, so that E[φ(k)·φ(q)] = exp(k·q).

    `kind="relu"` replaces this by [relu(Rx), relu(-Rx)] / √m, which approximates no softmax but often trains
    better (end of Sec. 5.4). `orthogonal` makes the rows of each block of d rows orthogonal, which lowers the
    variance. `stabilised` divides x by d^¼ first (so that the kernel is softmax's own exp(k·q / √d)) and hands
    out each vector's scale apart from its features, so that large keys do not underflow; see
    docs/math.md#stabilised-favor.
    """

    num_features: int = 64
    kind: Kind = "exp"
    orthogonal: bool = True
    stabilised: bool = False

    equations: ClassVar[str] = "31-32"

    def __post_init__(self) -> None:
        if isinstance(self.num_features, bool) or not isinstance(self.num_features, int) or self.num_features < 1:
            raise ValueError(f"Favor: num_features must be an integer of at least 1, got {self.num_features!r}")
        if self.kind not in get_args(Kind):
            raise ValueError(f"Favor: kind must be one of {', '.join(get_args(Kind))}, got {self.kind!r}")
        if self.stabilised and self.kind != "exp":
            raise ValueError('Favor: stabilised applies to kind="exp" only; relu features cannot underflow')

    @override
    def feature_dim(self, key_dim: int) -> int:
        return 2 * self.num_features

    @override
    def draw(
        self, key_dim: int, generator: torch.Generator | None = None, device: torch.device | None = None
    ) -> Projection:
        rows = torch.randn(self.num_features, key_dim, generator=generator)
        if self.orthogonal:
            # A block's rows are the directions of a random rotation with the lengths of independent Gaussian rows.
            blocks = math.ceil(self.num_features / key_dim)
            q, r = torch.linalg.qr(torch.randn(blocks, key_dim, key_dim, generator=generator))
            # Signs as if the diagonal of r were positive: only then are all rotations equally likely.
            rotations = q * r.diagonal(dim1=-2, dim2=-1).sign()[:, None, :]
            rows = rotations.reshape(-1, key_dim)[: self.num_features] * rows.norm(dim=-1, keepdim=True)
        # One layout for all draws: a copy read from a file must give the same products to the last bit.
        return rows.contiguous().to(device)

    @override
    def __call__(self, x: Vectors, projection: Projection | None = None) -> Features:
        if projection is None:
            projection = _fixed_draw(self, x.shape[-1]).to(x.device)
        if self.kind == "relu":
            # In at least float32, like the exponents: half precision would round the random features themselves.
            dtype = torch.promote_types(x.dtype, torch.float32)
            projected = x.to(dtype) @ projection.to(dtype).T
            return (torch.cat([projected, -projected], dim=-1).relu() / math.sqrt(self.num_features)).to(x.dtype)
        exponents, log_factor = self._exponents(x, projection)
        return (exponents + log_factor[..., None]).exp().to(x.dtype)

    @override
    def log_scaled(self, x: Vectors, projection: Projection) -> tuple[Features, Tensor] | None:
        if not self.stabilised:
            return None
        exponents, log_factor = self._exponents(x, projection)
        # The scale is only a choice of units, so no gradient flows through it; that of the factor flows through the
        # features, to which it adds exactly nothing.
        largest, detached = exponents.detach().amax(dim=-1), log_factor.detach()
        log_features = exponents - largest[..., None] + (log_factor - detached)[..., None]
        return log_features.exp().to(x.dtype), largest + detached

    @override
    def attention_kernel(self, key_dim: int) -> AttentionKernel | None:
        return AttentionKernel("favor", self.num_features, self.feature_dim(key_dim)) if self.stabilised else None

    def _exponents(self, x: Vectors, projection: Projection) -> tuple[Features, Tensor]:
        """[Rx, -Rx] and -|x|²/2 - log √(2m), in at least float32: log φ(x) is their sum (Eqs. 31 and 32)."""
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        if self.stabilised:
            x = x * x.shape[-1] ** -0.25
        # Bounded so that |x|² does not overflow; the literal features of such vectors are zero anyway.
        x = x.clamp(-LARGEST, LARGEST)
        projected = x @ projection.to(x.dtype).T
        log_factor = -x.square().sum(dim=-1) / 2 - math.log(2 * self.num_features) / 2
        return torch.cat([projected, -projected], dim=-1), log_factor


@lru_cache(maxsize=8)
def _fixed_draw(favor: Favor, key_dim: int) -> Projection:
    return favor.draw(key_dim, torch.Generator().manual_seed(0))
