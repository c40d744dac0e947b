"""Softmax over the components of a key: features that are positive and sum to 1 by themselves."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from typing_extensions import override

from fastweights.feature_maps.base import FeatureMap
from fastweights.shapes import Features, Vectors


@dataclass(frozen=True)
class SoftmaxFeatures(FeatureMap):
    """φ(x)_i = exp(x_i) / Σ_j exp(x_j).

    This is exp with the sum normalisation of Eq. 29, computed so that neither can overflow. It has nothing to do with
    softmax attention, whose kernel exp(k·q) no finite number of features gives.
    """

    equations: ClassVar[str] = "-"

    @override
    def feature_dim(self, key_dim: int) -> int:
        return key_dim

    @override
    def __call__(self, x: Vectors) -> Features:
        return torch.softmax(x, dim=-1)
