"""The map of the Linear Transformer (Katharopoulos et al., 2020; Sec. 5.2)."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from fastweights.feature_maps.base import FeatureMap
from fastweights.shapes import Features, Vectors


@dataclass(frozen=True)
class EluPlusOne(FeatureMap):
    """φ(x) = x + 1 if x > 0, else exp(x)."""

    equations: ClassVar[str] = "30"

    @override
    def feature_dim(self, key_dim: int) -> int:
        return key_dim

    @override
    def __call__(self, x: Vectors) -> Features:
        # elu(x) + 1 would round exp(x) - 1 first, and exp(x) is lost in low precision. Here one term is exact for each
        # sign, exp sees only arguments for which it is finite, and nothing branches, which a CPU is slow at.
        return x.relu() + x.clamp(max=0).exp()
