"""A claim of the paper and how it is judged: by one stated rule, on the published runs and on ours alike."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

Runs = TypeVar("Runs")
"""The results that judge a claim: outcomes of synthetic runs, or perplexities."""

Verdict = Literal["holds", "holds in part", "does not hold", "undecided", "not run yet"]


@dataclass(frozen=True)
class Finding:
    """The verdict of some runs on a claim, with the numbers."""

    verdict: Verdict
    evidence: str


NOT_RUN = Finding("not run yet", "no runs")


@dataclass(frozen=True)
class Claim(Generic[Runs]):
    """A statement of the paper with its place, the rule that decides it, and a remark beside the verdict."""

    name: str
    where: str
    says: str
    rule: str
    judge: Callable[[Runs], Finding]
    remark: str = ""


def decide(parts: Iterable[bool | None], evidence: str) -> Finding:
    """All parts hold, some, or none; None is a part that the runs leave open."""
    held = list(parts)
    if not held:
        return NOT_RUN
    if all(held):
        return Finding("holds", evidence)
    if None in held and not any(held):
        return Finding("undecided", evidence)
    return Finding("holds in part" if any(held) else "does not hold", evidence)


def sizes(values: Iterable[int]) -> str:
    """Values of S as a list in words."""
    return ", ".join(str(value) for value in values) or "none"
