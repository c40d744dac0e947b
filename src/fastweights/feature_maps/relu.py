"""The rectifier alone: what ELU + 1 is motivated against (Sec. 5.2)."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from fastweights.feature_maps.base import FeatureMap
from fastweights.shapes import Features, Vectors


@dataclass(frozen=True)
class Relu(FeatureMap):
    """φ(x) = max(0, x)."""

    equations: ClassVar[str] = "Sec. 5.2"

    @override
    def feature_dim(self, key_dim: int) -> int:
        return key_dim

    @override
    def __call__(self, x: Vectors) -> Features:
        return x.relu()
