"""The map of DeltaNet (Yang et al., 2024), which goes with L2 normalisation."""

from dataclasses import dataclass
from typing import ClassVar

from torch.nn.functional import silu
from typing_extensions import override

from fastweights.feature_maps.base import FeatureMap
from fastweights.shapes import Features, Vectors


@dataclass(frozen=True)
class SiLU(FeatureMap):
    """φ(x) = x σ(x)."""

    equations: ClassVar[str] = "-"
    positive: ClassVar[bool] = False

    @override
    def feature_dim(self, key_dim: int) -> int:
        return key_dim

    @override
    def __call__(self, x: Vectors) -> Features:
        return silu(x)
