"""The memories whose writes are compared: an update rule, and what keys and reads are normalised by."""

from dataclasses import dataclass

from fastweights.memory import (
    AttentionNormalisation,
    CentredL2,
    L2Normalisation,
    NoNormalisation,
    Normalisation,
    SumNormalisation,
)
from fastweights.reporting.style import BLACK, BLUE, GREEN, GREY, ORANGE, PURPLE, SKY, VERMILION, Series
from fastweights.update_rules import DeltaRule, NormalisedStep, SumRule, UpdateRule


@dataclass(frozen=True)
class Memory:
    """A rule and its normalisations, and how figures show it."""

    rule: UpdateRule
    normalisation: Normalisation
    attention: AttentionNormalisation | None
    series: Series

    @property
    def signed(self) -> bool:
        """Whether keys have components of either sign, so that their sum, and with it the balance, means nothing."""
        return isinstance(self.normalisation, CentredL2)


_Z = AttentionNormalisation()
MEMORIES: dict[str, Memory] = {
    "delta-none": Memory(DeltaRule(), NoNormalisation(), None, Series("delta, no normalisation", GREY, "X")),
    "delta-attention": Memory(DeltaRule(), NoNormalisation(), _Z, Series("delta, attention", VERMILION, "P")),
    "delta-sum-attention": Memory(
        DeltaRule(), SumNormalisation(), _Z, Series("delta, sum and attention", ORANGE, "v", "--")
    ),
    "delta-sum": Memory(DeltaRule(), SumNormalisation(), None, Series("delta, sum (the paper)", BLACK, "o")),
    "delta-l2": Memory(DeltaRule(), L2Normalisation(), None, Series("delta, L2", SKY, "s")),
    "delta-centred-l2": Memory(DeltaRule(), CentredL2(), None, Series("delta, centred L2", BLUE, "D")),
    "nlms-sum": Memory(NormalisedStep(), SumNormalisation(), None, Series("NLMS, sum", GREEN, "^")),
    "sum-attention": Memory(SumRule(), NoNormalisation(), _Z, Series("sum rule, attention", PURPLE, "*", "--")),
}


def memory_name(rule: UpdateRule, normalisation: Normalisation, attention: AttentionNormalisation | None) -> str:
    """The name of a memory; of one that has none, those of its parts."""
    for name, memory in MEMORIES.items():
        if (memory.rule, memory.normalisation, memory.attention) == (rule, normalisation, attention):
            return name
    parts = [type(rule).__name__, type(normalisation).__name__, *(["attention"] if attention else [])]
    return "-".join(parts).lower()
