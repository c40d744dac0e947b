"""The memories whose writes are compared: an update rule, and what keys and reads are normalised by."""

import re
from dataclasses import dataclass

from fastweights.config import unknown
from fastweights.memory import (
    AttentionNormalisation,
    CentredL2,
    L2Normalisation,
    NoNormalisation,
    Normalisation,
    SumNormalisation,
)
from fastweights.update_rules import DeltaRule, NormalisedStep, SumRule, UpdateRule


@dataclass(frozen=True)
class Memory:
    """A rule and its normalisations."""

    rule: UpdateRule
    normalisation: Normalisation
    attention: AttentionNormalisation | None = None

    @property
    def signed(self) -> bool:
        """True if keys have components of either sign, so that their sum, and with it the balance, means nothing."""
        return isinstance(self.normalisation, CentredL2)


_Z = AttentionNormalisation()
MEMORIES: dict[str, Memory] = {
    "delta-none": Memory(DeltaRule(), NoNormalisation()),
    "delta-attention": Memory(DeltaRule(), NoNormalisation(), _Z),
    "delta-sum-attention": Memory(DeltaRule(), SumNormalisation(), _Z),
    "delta-sum": Memory(DeltaRule(), SumNormalisation()),
    "delta-l2": Memory(DeltaRule(), L2Normalisation()),
    "delta-centred-l2": Memory(DeltaRule(), CentredL2()),
    "nlms-sum": Memory(NormalisedStep(), SumNormalisation()),
    "sum-attention": Memory(SumRule(), NoNormalisation(), _Z),
}


def memory_named(name: str, rule: str | None = None) -> Memory:
    """The memory of this name, which says its rule; a ValueError lists the names there are."""
    if name not in MEMORIES:
        raise ValueError(f"model: {unknown('name', name, MEMORIES)}")
    if rule is not None:
        raise ValueError(f"rule: the name of the memory says it, got {rule!r}")
    return MEMORIES[name]


def memory_name(rule: UpdateRule, normalisation: Normalisation, attention: AttentionNormalisation | None) -> str:
    """The name of a memory; of one that has none, those of its parts."""
    for name, memory in MEMORIES.items():
        if (memory.rule, memory.normalisation, memory.attention) == (rule, normalisation, attention):
            return name
    parts = [type(rule).__name__, type(normalisation).__name__, *(["attention"] if attention else [])]
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "-", "-".join(parts)).lower()
