"""The map of the Linear Transformer (Katharopoulos et al., 2020; Sec. 5.2)."""

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor
from typing_extensions import override

from fastweights.feature_maps.base import FeatureMap
from fastweights.kernels.features import MapKernel, fused_features
from fastweights.kernels.native.attention import AttentionKernel
from fastweights.kernels.native.features import CompiledMap
from fastweights.shapes import Features, Vectors


def elu_plus_one(x: Tensor) -> Tensor:
    """x + 1 if x > 0, else exp(x)."""
    # elu(x) + 1 would round exp(x) - 1 first, and exp(x) is lost in low precision. Here one term is exact for each
    # sign, exp sees only arguments for which it is finite, and nothing branches, which a CPU is slow at.
    return x.relu() + x.clamp(max=0).exp()


_COMPILED = CompiledMap("elu_plus_one", elu_plus_one, width=lambda input_dim: input_dim)


@dataclass(frozen=True)
class EluPlusOne(FeatureMap):
    """φ(x) = x + 1 if x > 0, else exp(x)."""

    equations: ClassVar[str] = "30"

    @override
    def feature_dim(self, key_dim: int) -> int:
        return key_dim

    @override
    def __call__(self, x: Vectors) -> Features:
        compiled = fused_features(self.kernel(x.shape[-1]), "none", x)
        return elu_plus_one(x) if compiled is None else compiled

    @override
    def kernel(self, key_dim: int) -> MapKernel | None:
        return MapKernel(_COMPILED)

    @override
    def attention_kernel(self, key_dim: int) -> AttentionKernel | None:
        return AttentionKernel("elu_plus_one", 0, self.feature_dim(key_dim))
