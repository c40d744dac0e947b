"""Running an update rule over a sequence: the operator, its backends, normalisations and the state."""

from fastweights.memory.normalise import (
    NORMALISATIONS,
    AttentionNormalisation,
    L2Normalisation,
    NoNormalisation,
    Normalisation,
    SumNormalisation,
)
from fastweights.memory.run import Writes, run_rule
from fastweights.memory.scan import BACKENDS, BackendStatus, backends, fast_weight_scan
from fastweights.memory.state import FastWeightState

__all__ = [
    "BACKENDS",
    "NORMALISATIONS",
    "AttentionNormalisation",
    "BackendStatus",
    "FastWeightState",
    "L2Normalisation",
    "NoNormalisation",
    "Normalisation",
    "SumNormalisation",
    "Writes",
    "backends",
    "fast_weight_scan",
    "run_rule",
]
