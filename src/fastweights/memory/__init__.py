"""Running an update rule over a sequence: the operator, its backends, normalisations and the state."""

from fastweights.memory.backend import Backend, Call
from fastweights.memory.choose import BACKENDS, BackendStatus, backends, choose_backend
from fastweights.memory.layer_state import LayerState
from fastweights.memory.normalise import (
    NORMALISATIONS,
    AttentionNormalisation,
    CentredL2,
    L2Normalisation,
    NoNormalisation,
    Normalisation,
    SumNormalisation,
)
from fastweights.memory.packing import boundaries_of, decay_at_boundaries, last_steps
from fastweights.memory.recording import Observed, Recording, observe, record
from fastweights.memory.run import run_rule
from fastweights.memory.scan import fast_weight_scan
from fastweights.memory.sequence_parallel import sequence_parallel_scan
from fastweights.memory.state import FastWeightState
from fastweights.memory.trace import QUANTITIES, Observation
from fastweights.memory.write_inputs import WriteInputs

__all__ = [
    "BACKENDS",
    "NORMALISATIONS",
    "QUANTITIES",
    "AttentionNormalisation",
    "Backend",
    "BackendStatus",
    "Call",
    "CentredL2",
    "FastWeightState",
    "L2Normalisation",
    "LayerState",
    "NoNormalisation",
    "Normalisation",
    "Observation",
    "Observed",
    "Recording",
    "SumNormalisation",
    "WriteInputs",
    "backends",
    "boundaries_of",
    "choose_backend",
    "decay_at_boundaries",
    "fast_weight_scan",
    "last_steps",
    "observe",
    "record",
    "run_rule",
    "sequence_parallel_scan",
]
