"""Feature maps φ for keys and queries (Sec. 5). A new map is one file here and one line in the table."""

from fastweights.feature_maps.base import FeatureMap, RandomFeatureMap
from fastweights.feature_maps.dpfp import DPFP
from fastweights.feature_maps.elu import EluPlusOne
from fastweights.feature_maps.favor import Favor
from fastweights.feature_maps.identity import Identity
from fastweights.feature_maps.relu import Relu
from fastweights.feature_maps.silu import SiLU
from fastweights.feature_maps.softmax import SoftmaxFeatures
from fastweights.feature_maps.tanh import Tanh

FEATURE_MAPS: dict[str, type[FeatureMap]] = {
    "identity": Identity,
    "tanh": Tanh,
    "relu": Relu,
    "elu": EluPlusOne,
    "favor": Favor,
    "dpfp": DPFP,
    "softmax-features": SoftmaxFeatures,
    "silu": SiLU,
}

__all__ = [
    "DPFP",
    "FEATURE_MAPS",
    "EluPlusOne",
    "Favor",
    "FeatureMap",
    "Identity",
    "RandomFeatureMap",
    "Relu",
    "SiLU",
    "SoftmaxFeatures",
    "Tanh",
]
