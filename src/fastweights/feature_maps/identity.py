"""No map: self-attention without softmax (Sec. 3.1)."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from fastweights.feature_maps.base import FeatureMap
from fastweights.shapes import Features, Vectors


@dataclass(frozen=True)
class Identity(FeatureMap):
    """φ(x) = x."""

    equations: ClassVar[str] = "8-11"
    positive: ClassVar[bool] = False

    @override
    def feature_dim(self, key_dim: int) -> int:
        return key_dim

    @override
    def __call__(self, x: Vectors) -> Features:
        return x
