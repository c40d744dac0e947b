"""The interface of a feature map φ: R^d_key → R^d_dot (Sec. 5.1)."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from fastweights.kernels.features import MapKernel
from fastweights.kernels.native.attention import AttentionKernel
from fastweights.shapes import Features, Projection, Vectors


@dataclass(frozen=True)
class FeatureMap(ABC):
    """φ(x): maps a key or a query into the space where dot products are taken."""

    equations: ClassVar[str]
    """The equations of the map in the paper."""

    positive: ClassVar[bool] = True
    """True if features are never negative, as attention weights require (Sec. 5.1)."""

    @abstractmethod
    def feature_dim(self, key_dim: int) -> int:
        """d_dot, the number of features for keys of `key_dim` components (Table 6)."""

    @abstractmethod
    def __call__(self, x: Vectors) -> Features:
        """Map the last dimension of `x`."""

    def kernel(self, key_dim: int) -> MapKernel | None:
        """The compiled form of the map, for `kernels.features.fused_features`; None if it has none."""
        return None

    def attention_kernel(self, key_dim: int) -> AttentionKernel | None:
        """The map in compiled attention, for `kernels.native.attention.fused_attention`; None if it is not there."""
        return None


@dataclass(frozen=True)
class RandomFeatureMap(FeatureMap):
    """A map with random features: `draw` makes them, and a layer keeps them as a buffer."""

    @abstractmethod
    def draw(
        self, key_dim: int, generator: torch.Generator | None = None, device: torch.device | None = None
    ) -> Projection:
        """A fresh draw of the random features, one row each, in float32."""

    @abstractmethod
    def __call__(self, x: Vectors, projection: Projection | None = None) -> Features:
        """Map `x` with the given draw; without one, always with the same fixed draw."""

    def log_scaled(self, x: Vectors, projection: Projection) -> tuple[Features, Tensor] | None:
        """(f, s) with φ(x) = exp(s) f and max f = 1, if the map can be computed without underflow."""
        return None
