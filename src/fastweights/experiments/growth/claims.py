"""What the paper says about the accumulator of attention normalisation, and what the review asks to see."""

import math
from itertools import pairwise

from fastweights.experiments.claim import NOT_RUN, Claim, Finding, decide
from fastweights.experiments.growth.curves import Curves, curves
from fastweights.experiments.growth.positions import Positions
from fastweights.experiments.growth.presets import LENGTHS
from fastweights.experiments.memories import MEMORIES
from fastweights.experiments.series import MEMORY_SERIES

FIRST, LAST = 100, LENGTHS["float32"]
TOO_FAR = 0.1
"""A read that rounding the state changes by more than this share is called unstable."""
WORSE = 0.05
"""A carried memory whose perplexity is worse than an emptied one's by more than this share is called broken."""

ours = curves
"""Our streams, and language models by position; the authors published no such measurement."""


def judge_always_grows(found: Curves) -> Finding:
    memories = found.with_normaliser()
    parts, evidence = [], []
    for memory in memories:
        column = found.column(memory, "normaliser")
        parts.append(all(after > before for before, after in pairwise(column)))
        rate = found.exponent(memory, "normaliser")
        evidence.append(f"{label(memory)}: |z| = {column[-1]:.3g} after {LAST:,} steps, growing as t^{rate:.2f}")
    return decide(parts, "; ".join(evidence))


def judge_instability(found: Curves) -> Finding:
    memories = found.with_normaliser()
    if not memories:
        return NOT_RUN
    breaks = any(not finite(found.column(memory, "read")) for memory in memories)
    growing = any(found.at(memory, "read", LAST) > found.at(memory, "read", FIRST) for memory in memories)
    changes = {memory: changed_by_rounding(found, memory) for memory in memories}
    others = [changed_by_rounding(found, memory) for memory in MEMORIES if memory not in memories]
    worst = max(changes, key=lambda memory: -1 if math.isnan(changes[memory]) else changes[memory])
    most = max((x for x in others if not math.isnan(x)), default=math.nan)
    evidence = (
        f"float32: every read is finite to step {LAST:,} and |y| falls "
        f"from {found.at(worst, 'read', FIRST):.2g} to {found.at(worst, 'read', LAST):.2g}"
        if not (breaks or growing)
        else "float32: reads grow or are not finite"
    )
    evidence += (
        f"; state in bfloat16: |y| is off by {changes[worst]:.0%} after {LENGTHS['bfloat16']:,} steps "
        f"({label(worst)}), of memories without z by {most:.1%} at most"
    )
    rounding = None if math.isnan(changes[worst]) else changes[worst] > TOO_FAR
    return decide([breaks or growing, rounding], evidence)


def judge_blows_up(found: Curves) -> Finding:
    memories = found.with_normaliser()
    if not memories:
        return NOT_RUN
    faster = [found.exponent(memory, "normaliser") > 1.1 for memory in memories]
    broken = [not finite(found.column(memory, "normaliser")) for memory in memories]
    parts: list[bool | None] = [any(faster) or any(broken)]
    memory = max(memories, key=lambda name: found.exponent(name, "normaliser"))
    evidence = (
        f"z grows as t^{found.exponent(memory, 'normaliser'):.2f} and stays finite; λ falls to "
        f"{found.at(memory, 'landing', LAST):.1g}: the memory freezes"
    )
    models = models_with_z(found)
    if models:
        worst = max(models, key=lambda one: one.drift)
        parts.append(worst.drift > WORSE)
        evidence += f"; language models with z, memory carried to word {worst.edges[-1]:,}: {worst.drift:+.1%}"
        without = [one.drift for one in models_of_paper(found)]
        evidence += f" ({span_of(without)} without z)" if without else ""
    return decide(parts, evidence)


def judge_drift(found: Curves) -> Finding:
    paper = [one.drift for one in models_of_paper(found)]
    with_z = [one.drift for one in models_with_z(found)]
    if not paper or not with_z:
        return NOT_RUN
    return decide(
        [min(paper) > WORSE and min(paper) > max(with_z)],
        f"delta rule with sum normalisation {span_of(paper)}, models with z {span_of(with_z)}",
    )


def trained_on_segments(found: Curves) -> list[Positions]:
    """The language models whose carried memory is all that is new to them: nobody carried it in training, and there
    are no positions that were never trained."""
    return [one for one in found.language_models if not one.carried_in_training and not one.encoded]


def models_with_z(found: Curves) -> list[Positions]:
    """Language models with attention normalisation, every seed."""
    memories = {name for name, memory in MEMORIES.items() if memory.attention}
    return [one for one in trained_on_segments(found) if one.memory in memories]


def models_of_paper(found: Curves) -> list[Positions]:
    """Language models with the paper's choice, sum normalisation alone, every map and seed."""
    return [one for one in trained_on_segments(found) if one.memory == "delta-sum"]


def span_of(drifts: list[float]) -> str:
    """The least and the most of them, once if there is one."""
    return " to ".join(dict.fromkeys(f"{drift:+.1%}" for drift in (min(drifts), max(drifts))))


def changed_by_rounding(found: Curves, memory: str) -> float:
    """| |y| in bfloat16 / |y| in float32 - 1 | at the end of the rounded stream."""
    last = LENGTHS["bfloat16"]
    return abs(found.at(memory, "read", last, "bfloat16") / found.at(memory, "read", last) - 1)


def finite(column: list[float]) -> bool:
    """Whether every number of a column is one."""
    return all(math.isfinite(x) for x in column)


def label(memory: str) -> str:
    """How figures call a memory."""
    return MEMORY_SERIES[memory].label


ASKED = "The review asks that it be “validated by observing their variation with number of steps”."
CLAIMS: tuple[Claim[Curves], ...] = (
    Claim(
        "the accumulator always grows",
        "Sec. 4.2",
        "“the accumulation of positive values in Eq. 26 always grows with the number of steps”",
        "|z| is larger at every measured step than at the one before, in every memory that has a z",
        judge_always_grows,
        ASKED,
    ),
    Claim(
        "the accumulator makes a memory unstable",
        "Sec. 4.2",
        "“and may result in instability”",
        "reads that are not finite or larger after 10⁶ steps than after 10²; or a state in bfloat16 changes |y| by "
        f"more than {TOO_FAR:.0%} within 10⁴ steps",
        judge_instability,
        ASKED,
    ),
    Claim(
        "the accumulator blows up",
        "Sec. 6.3",
        "“the accumulator blows up as indicated in Sec. 4.2”",
        "z grows faster than t^1.1 or is not finite; or a language model with z, its memory carried on, is worse "
        f"than with an emptied one by more than {WORSE:.0%}",
        judge_blows_up,
    ),
)

REVIEW: tuple[Claim[Curves], ...] = (
    Claim(
        "what the accumulator does",
        "review, “accumulation of positive values resulting in instability”",
        "Does the accumulator of attention normalisation make a memory unstable?",
        CLAIMS[1].rule,
        judge_instability,
    ),
    Claim(
        "what drifts is the memory without an accumulator",
        "review, “variation with number of steps”",
        "Do trained language models without the accumulator drift over 10⁵ words?",
        f"without positions, trained on segments: the paper's choice, carried on, is worse than emptied by more than "
        f"{WORSE:.0%} with every map and seed, and than any model with z",
        judge_drift,
    ),
)
