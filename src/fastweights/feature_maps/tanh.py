"""The key non-linearity of Schlag et al. (2021), used by the baseline of Sec. 6.1.2."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from fastweights.feature_maps.base import FeatureMap
from fastweights.shapes import Features, Vectors


@dataclass(frozen=True)
class Tanh(FeatureMap):
    """φ(x) = tanh(x)."""

    equations: ClassVar[str] = "Sec. 6.1.2"
    positive: ClassVar[bool] = False

    @override
    def feature_dim(self, key_dim: int) -> int:
        return key_dim

    @override
    def __call__(self, x: Vectors) -> Features:
        return x.tanh()
