"""Deterministic parameter-free projection (Sec. 5.4, Listing 1)."""

import warnings
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn.functional import hardtanh
from typing_extensions import override

from fastweights.feature_maps.base import FeatureMap
from fastweights.kernels.features import MapKernel, fused_features
from fastweights.kernels.native.attention import AttentionKernel
from fastweights.kernels.native.features import CompiledMap
from fastweights.shapes import Features, Vectors


def dpfp(x: Tensor, nu: int) -> Tensor:
    """[r ⊙ roll(r, 1), …, r ⊙ roll(r, ν)]  with  r = relu([x, -x])."""
    # Rectified, and bounded so that no product of two finite coordinates overflows.
    r = torch.cat([x, -x], dim=-1)
    r = hardtanh(r, min_val=0.0, max_val=torch.finfo(x.dtype).max ** 0.5)
    return torch.cat([r * r.roll(shift, dims=-1) for shift in range(1, nu + 1)], dim=-1)


_COMPILED = CompiledMap("dpfp", dpfp, width=lambda input_dim, nu: 2 * nu * input_dim)


@dataclass(frozen=True)
class DPFP(FeatureMap):
    """φ(x) = [r ⊙ roll(r, 1), …, r ⊙ roll(r, ν)]  with  r = relu([x, -x]).

    Each feature is the product of two rectified coordinates, so few are active for any x: the map widens
    the memory by 2ν and keeps unrelated keys close to orthogonal.
    """

    nu: int = 1

    equations: ClassVar[str] = "33-37"

    def __post_init__(self) -> None:
        if isinstance(self.nu, bool) or not isinstance(self.nu, int) or self.nu < 1:
            raise ValueError(f"DPFP: nu must be an integer of at least 1, got {self.nu!r}")

    @override
    def feature_dim(self, key_dim: int) -> int:
        if self.nu > 2 * key_dim - 1:
            raise ValueError(
                f"DPFP: nu must be in 1 ... 2 * key_dim - 1 = {2 * key_dim - 1} for key_dim {key_dim} (Eq. 37), "
                f"got {self.nu}"
            )
        if self.nu >= key_dim:
            # r_i r_{i+d} = relu(x_i) relu(-x_i) = 0, and shift 2d - j pairs what shift j paired already.
            warnings.warn(
                f"DPFP: nu = {self.nu} gains nothing over nu = {key_dim - 1} for key_dim {key_dim}: the features of "
                f"shift {key_dim} are all zero and later shifts repeat earlier ones",
                stacklevel=2,
            )
        return 2 * self.nu * key_dim

    @override
    def __call__(self, x: Vectors) -> Features:
        compiled = fused_features(self.kernel(x.shape[-1]), "none", x)
        return dpfp(x, self.nu) if compiled is None else compiled

    @override
    def kernel(self, key_dim: int) -> MapKernel | None:
        self.feature_dim(key_dim)
        return MapKernel(_COMPILED, (self.nu,))

    @override
    def attention_kernel(self, key_dim: int) -> AttentionKernel | None:
        return AttentionKernel("dpfp", self.nu, self.feature_dim(key_dim))
