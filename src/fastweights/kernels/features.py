"""The compiled forms of feature maps, looked up by map and normalisation: neither has to know the other."""

from typing import Literal, NamedTuple

from torch import Tensor

from fastweights.kernels.native.features import CompiledMap

NormalisationKernel = Literal["none", "sum"]
"""Normalisations that a compiled map can apply in the same pass: φ(x), or φ(x) / Σ_j φ(x)_j."""


class MapKernel(NamedTuple):
    """A compiled feature map and its integer parameters; its features are never negative."""

    compiled: CompiledMap
    parameters: tuple[int, ...] = ()


def fused_features(
    feature_map: MapKernel | None, normalisation: NormalisationKernel | None, x: Tensor
) -> Tensor | None:
    """φ'(x) in one pass; None if no kernel here computes this map with this normalisation for such tensors."""
    if feature_map is None or normalisation is None or not feature_map.compiled.serves(x):
        return None
    return feature_map.compiled(x, list(feature_map.parameters), normalisation == "sum")
