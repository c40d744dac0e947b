"""FAVOR+, the random features of the Performer (Choromanski et al., 2021; Sec. 5.3)."""

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar, Literal, get_args

import torch
from torch import Tensor
from typing_extensions import override

from fastweights.feature_maps.base import RandomFeatureMap
from fastweights.shapes import Features, Projection, Vectors

Kind = Literal["exp", "relu"]


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
            rotations = torch.linalg.qr(torch.randn(blocks, key_dim, key_dim, generator=generator)).Q
            rows = rotations.reshape(-1, key_dim)[: self.num_features] * rows.norm(dim=-1, keepdim=True)
        return rows.to(device)

    @override
    def __call__(self, x: Vectors, projection: Projection | None = None) -> Features:
        if projection is None:
            projection = _fixed_draw(self, x.shape[-1]).to(x.device)
        if self.kind == "relu":
            projected = x @ projection.to(x.dtype).T
            return torch.cat([projected, -projected], dim=-1).relu() / math.sqrt(self.num_features)
        return self._log_features(x, projection).exp().to(x.dtype)

    @override
    def log_scaled(self, x: Vectors, projection: Projection) -> tuple[Features, Tensor] | None:
        if not self.stabilised:
            return None
        log_features = self._log_features(x, projection)
        # The scale is only a choice of units: no gradient has to flow through the arg max.
        scale = log_features.detach().amax(dim=-1)
        return (log_features - scale[..., None]).exp().to(x.dtype), scale

    def _log_features(self, x: Vectors, projection: Projection) -> Features:
        """log φ(x), in at least float32: the exponents of Eqs. 31 and 32 added before anything is exponentiated."""
        x = x.to(torch.promote_types(x.dtype, torch.float32))
        if self.stabilised:
            x = x * x.shape[-1] ** -0.25
        projected = x @ projection.to(x.dtype).T
        exponents = torch.cat([projected, -projected], dim=-1) - x.square().sum(dim=-1, keepdim=True) / 2
        # |x|² may overflow; a finite floor keeps differences of exponents defined.
        return exponents.clamp(min=-1e30) - math.log(2 * self.num_features) / 2


@lru_cache(maxsize=8)
def _fixed_draw(favor: Favor, key_dim: int) -> Projection:
    return favor.draw(key_dim, torch.Generator().manual_seed(0))
