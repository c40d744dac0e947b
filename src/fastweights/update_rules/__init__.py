"""Update rules of the fast weights: the paper's (Secs. 2-4) and their successors.

A new rule is one file here and one line in the table.
"""

from fastweights.update_rules.base import Coefficients, LinearRule, UpdateRule
from fastweights.update_rules.decayed_sum import DecayedSumRule
from fastweights.update_rules.decays import (
    DECAYS,
    Decay,
    GatedLinearDecay,
    KimiDecay,
    LightningDecay,
    Mamba2Decay,
    RetNetDecay,
    SoftplusDecay,
)
from fastweights.update_rules.delta_product import DeltaProductRule
from fastweights.update_rules.delta_rule import DeltaRule
from fastweights.update_rules.fast_weight_memory import FastWeightMemoryRule
from fastweights.update_rules.gated_delta import GatedDeltaRule
from fastweights.update_rules.gated_delta2 import GatedDeltaRule2
from fastweights.update_rules.gates import Gate, WriteStrength
from fastweights.update_rules.kimi_delta import KimiDeltaRule
from fastweights.update_rules.normalised_delta import NormalisedDeltaRule
from fastweights.update_rules.normalised_step import NormalisedStep
from fastweights.update_rules.programmer import ProgrammerRule
from fastweights.update_rules.sum_rule import SumRule

UPDATE_RULES: dict[str, type[UpdateRule]] = {
    "sum": SumRule,
    "delta": DeltaRule,
    "normalised-delta": NormalisedDeltaRule,
    "normalised-step": NormalisedStep,
    "fast-weight-memory": FastWeightMemoryRule,
    "programmer": ProgrammerRule,
    "gated-delta": GatedDeltaRule,
    "delta-product": DeltaProductRule,
    "decayed-sum": DecayedSumRule,
    "kimi-delta": KimiDeltaRule,
    "gated-delta-2": GatedDeltaRule2,
}

__all__ = [
    "DECAYS",
    "UPDATE_RULES",
    "Coefficients",
    "Decay",
    "DecayedSumRule",
    "DeltaProductRule",
    "DeltaRule",
    "FastWeightMemoryRule",
    "Gate",
    "GatedDeltaRule",
    "GatedDeltaRule2",
    "GatedLinearDecay",
    "KimiDecay",
    "KimiDeltaRule",
    "LightningDecay",
    "LinearRule",
    "Mamba2Decay",
    "NormalisedDeltaRule",
    "NormalisedStep",
    "ProgrammerRule",
    "RetNetDecay",
    "SoftplusDecay",
    "SumRule",
    "UpdateRule",
    "WriteStrength",
]
