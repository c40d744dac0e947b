"""The map of the Linear Transformer (Katharopoulos et al., 2020; Sec. 5.2)."""

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from fastweights.feature_maps import native_features
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
        compute = native_features.features if native_features.serves(x) else native_features.definition
        return compute(x, 0, normalise=False)

    @override
    def sum_normalised(self, x: Vectors) -> Features | None:
        return native_features.features(x, 0, normalise=True) if native_features.serves(x) else None
