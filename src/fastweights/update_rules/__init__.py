"""Update rules of the fast weights (Secs. 2-4). A new rule is one file here and one line in the table."""

from fastweights.update_rules.base import Coefficients, LinearRule, UpdateRule
from fastweights.update_rules.delta_rule import DeltaRule
from fastweights.update_rules.fast_weight_memory import FastWeightMemoryRule
from fastweights.update_rules.gates import Gate, WriteStrength
from fastweights.update_rules.normalised_delta import NormalisedDeltaRule
from fastweights.update_rules.programmer import ProgrammerRule
from fastweights.update_rules.sum_rule import SumRule

UPDATE_RULES: dict[str, type[UpdateRule]] = {
    "sum": SumRule,
    "delta": DeltaRule,
    "normalised-delta": NormalisedDeltaRule,
    "fast-weight-memory": FastWeightMemoryRule,
    "programmer": ProgrammerRule,
}

__all__ = [
    "UPDATE_RULES",
    "Coefficients",
    "DeltaRule",
    "FastWeightMemoryRule",
    "Gate",
    "LinearRule",
    "NormalisedDeltaRule",
    "ProgrammerRule",
    "SumRule",
    "UpdateRule",
    "WriteStrength",
]
