"""What is measured, in which order; every measurement runs in a process of its own, started by its name."""

from typing import Protocol

from benchmarks.accelerate import MODELS as ACCELERATED
from benchmarks.accelerate import AccelerationMeasurement
from benchmarks.decays import DecayMeasurement
from benchmarks.decoding import DecodingMeasurement
from benchmarks.feature_maps import FeatureMapMeasurement
from benchmarks.generation import GenerationMeasurement
from benchmarks.language_models import TrainingMeasurement
from benchmarks.layer_parts import LayerMeasurement
from benchmarks.layouts import LayoutMeasurement
from benchmarks.lengths import LengthMeasurement
from benchmarks.operators import OperatorMeasurement
from benchmarks.peak_memory import MemoryMeasurement
from benchmarks.peers import PeerMeasurement
from benchmarks.problems import Case
from benchmarks.shortcuts import ShortcutMeasurement
from benchmarks.stacks import StackMeasurement
from benchmarks.synthetic import SyntheticMeasurement
from benchmarks.timing import Json
from benchmarks.traces import TraceMeasurement
from benchmarks.translation import TranslationDecodingMeasurement, TranslationTrainingMeasurement

SIZES = ((16, 16), (32, 32), (64, 64), (128, 64), (384, 64))
"""(k, v): small heads, plain heads of 64, and those under DPFP-1 and DPFP-3."""
LAYER_SIZES = ((16, 16), (32, 16), (64, 64), (128, 64))
EVERY_LENGTH = (16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384)
FEW_LENGTHS = (64, 1024, 16384)
LENGTHS = {(64, 64): EVERY_LENGTH, (128, 64): (64, 128, 256, 512, 1024, 4096, 16384)}
"""Those at which a memory must not be slower than softmax attention; FEW_LENGTHS of other sizes."""
HEADS = 8
TOKENS = 4096
"""Tokens per call as long as there is more than one sequence, so that lengths do the same amount of work."""
TELLING_STACKS = ("softmax", "delta, DPFP-1", "delta, DPFP-3")
FAST = ("native", "chunked")


class Measurement(Protocol):
    """Something to measure: a name, a guess of how long it takes, and JSON out."""

    @property
    def name(self) -> str: ...

    @property
    def expected_seconds(self) -> float: ...

    def run(self) -> Json:
        """Measure."""


def case_of(steps: int, key_dim: int, value_dim: int) -> Case:
    """TOKENS in sequences of so many steps, or one sequence that is longer."""
    return Case(max(1, TOKENS // steps), HEADS, steps, key_dim, value_dim)


def operator(steps: int, size: tuple[int, int], threads: int, seconds: float = 0.3) -> OperatorMeasurement:
    """All competitors; the slow ones take minutes at the longest length, and run there only once."""
    case = case_of(steps, *size)
    if steps > TOKENS and (size != (64, 64) or threads == 1):
        return OperatorMeasurement(case, threads, seconds, FAST)
    return OperatorMeasurement(case, threads, seconds)


def full() -> list[Measurement]:
    """Everything, in some twenty minutes on two cores."""
    plan: list[Measurement] = [LayoutMeasurement(case_of(1024, *size)) for size in LAYER_SIZES]
    for size in SIZES:
        plan += [operator(steps, size, threads=2) for steps in LENGTHS.get(size, FEW_LENGTHS)]
        plan += [operator(steps, size, threads=1) for steps in (FEW_LENGTHS if size == (64, 64) else (1024,))]
    plan += [
        LengthMeasurement(),
        DecayMeasurement(Case(1, HEADS, 1024, 64, 64)),
        DecayMeasurement(Case(1, HEADS, 1024, 128, 128)),
        DecodingMeasurement(),
        ShortcutMeasurement(),
        FeatureMapMeasurement(),
        LayerMeasurement(),
        TraceMeasurement(),
    ]
    plan += [StackMeasurement(2, 2.0), StackMeasurement(1, 1.5, TELLING_STACKS)]
    plan += [TrainingMeasurement(length) for length in (256, 1024, 4096)]
    plan += [GenerationMeasurement(), PeerMeasurement(), SyntheticMeasurement()]
    plan += [TranslationTrainingMeasurement(), TranslationDecodingMeasurement()]
    plan += [AccelerationMeasurement(model) for model in ACCELERATED]
    plan += [
        MemoryMeasurement(case_of(steps, 64, 64), competitor, training)
        for steps, training in ((1024, True), (16384, False), (16384, True))
        for competitor in ("native", "chunked", "transformers", "sdpa")
    ]
    return plan


def quick() -> list[Measurement]:
    """The figures that matter most, in less than a minute."""
    plan: list[Measurement] = [operator(steps, (64, 64), threads=2, seconds=0.15) for steps in (128, 1024, 4096)]
    plan += [operator(1024, (128, 64), threads=2, seconds=0.15), DecodingMeasurement(seconds=0.2)]
    plan += [StackMeasurement(2, 1.0, TELLING_STACKS)]
    return plan


PLANS = {"full": full, "quick": quick}


def find(plan: str, name: str) -> Measurement:
    """The measurement of this name."""
    measurements = {measurement.name: measurement for measurement in PLANS[plan]()}
    if name not in measurements:
        raise ValueError(f"measurement: the {plan} plan has no {name!r}; possible: {', '.join(measurements)}")
    return measurements[name]
