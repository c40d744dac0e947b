"""The compiled forms of feature maps, looked up by map and normalisation: neither has to know the other."""

from typing import Literal, NamedTuple, get_args

from torch import Tensor

from fastweights.kernels.native.features import CompiledMap
from fastweights.kernels.transforms import active_transform
from fastweights.kernels.triton import availability

NormalisationKernel = Literal["none", "sum", "l2", "centred-l2"]
"""Normalisations that a compiled map can apply in the same pass, in the order of their numbers there."""
NUMBERS: dict[str, int] = {name: number for number, name in enumerate(get_args(NormalisationKernel))}


class MapKernel(NamedTuple):
    """A compiled feature map and its integer parameters; its features are never negative."""

    compiled: CompiledMap
    parameters: tuple[int, ...] = ()


def fused_features(
    feature_map: MapKernel | None, normalisation: NormalisationKernel | None, x: Tensor
) -> Tensor | None:
    """φ'(x) in one pass; None if no kernel here computes this map with this normalisation for such tensors."""
    if feature_map is None or normalisation is None:
        return None
    compiled, parameters = feature_map
    if compiled.serves(x):
        return compiled(x, list(parameters), NUMBERS[normalisation])
    if x.device.type == "cuda" and normalisation in ("none", "sum") and _served_by_triton(x):
        from fastweights.kernels.triton.features import fused

        return fused(compiled, x, parameters, normalisation == "sum")
    return None


def _served_by_triton(x: Tensor) -> bool:
    fits = x.dtype in availability.DTYPES and availability.wrong_device(x.device) is None
    return fits and availability.unavailable() is None and active_transform() == "none"
