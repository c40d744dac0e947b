"""Claims about recall and state tracking, judged by accuracies at the trained length and beyond."""

from collections.abc import Callable
from dataclasses import dataclass

from fastweights.experiments.claim import NOT_RUN, Claim, Finding, decide
from fastweights.experiments.recall.grids import DECIDING_BINDINGS, LONGEST, binding_scores, state_scores
from fastweights.experiments.records import Records
from fastweights.experiments.scores import AccuracyScores, percent, seeds_missing

RIGHT, NEAR_CHANCE = 0.99, 0.05
MARGIN = 0.2
"""By how much the delta family should be ahead at 64 keys."""
LONGER = tuple(map(str, range(1, LONGEST)))
"""Groups of the steps beyond the trained length."""


@dataclass(frozen=True)
class RecallScores:
    """What the runs of both kinds reached."""

    states: AccuracyScores
    bindings: AccuracyScores


def ours(records: Records) -> RecallScores:
    """What our runs reached."""
    return RecallScores(state_scores(records), binding_scores(records))


def tracked(problem: str, model: str, failing: str, chance: float) -> Callable[[RecallScores], Finding]:
    """A judge for: one model tracks the states of longer words with every seed, the other is near a guess."""

    def judge(scores: RecallScores) -> Finding:
        found, test = scores.states, f"x{LONGEST}"
        if not found.of((problem, model), test) or not found.of((problem, failing), test):
            return NOT_RUN
        right = [found.of((problem, model), test, place) for place in LONGER]
        wrong = [found.of((problem, failing), test, place) for place in LONGER]
        held = [min(values) >= RIGHT for values in right]
        held += [max(values) <= chance + NEAR_CHANCE for values in wrong]
        words = (f"{name} {', '.join(map(percent, values))}" for name, values in ((model, right), (failing, wrong)))
        few = seeds_missing(found, [(problem, model), (problem, failing)])
        return decide(held, f"2nd to {LONGEST}th length of a word: {'; '.join(words)}{few}")

    return judge


def overwriting(group: str) -> Callable[[RecallScores], Finding]:
    """A judge for: of questions of this group about 64 variables, delta rules answer more than the sum rule."""

    def judge(scores: RecallScores) -> Finding:
        found, problem = scores.bindings, "rebinding-64"
        base = found.mean((problem, "sum"), "x1", group)
        family = {model: found.mean((problem, model), "x1", group) for model in DECIDING_BINDINGS[problem][1:]}
        if base is None or None in family.values():
            return NOT_RUN
        held = [mean - base >= MARGIN for mean in family.values() if mean is not None]
        shown = ", ".join(f"{model} {percent(found.of((problem, model), 'x1', group))}" for model in family)
        few = seeds_missing(found, [(problem, model) for model in DECIDING_BINDINGS[problem]])
        return decide(held, f"sum {percent(found.of((problem, 'sum'), 'x1', group))}; {shown}{few}")

    return judge


def judge_rebinding(scores: RecallScores) -> Finding:
    found = scores.bindings
    models = ("delta", "nlms", "delta-l2", "delta-centred")
    means = {model: mean for model in models if (mean := found.mean(("rebinding", model), "x4")) is not None}
    if len(means) < len(models):
        return NOT_RUN
    shown = ", ".join(f"{model} {percent(found.of(('rebinding', model), 'x4'))}" for model in means)
    shown += seeds_missing(found, [("rebinding", model) for model in models])
    return decide([mean >= RIGHT for mean in means.values()], shown)


def judge_attention(scores: RecallScores) -> Finding:
    found = scores.bindings
    names = ("sum", "delta-attention", "delta")
    means = [found.mean(("rebinding", name), "x4") for name in names]
    if None in means:
        return NOT_RUN
    total, attention, delta = (mean for mean in means if mean is not None)
    shown = ", ".join(f"{name} {percent(found.of(('rebinding', name), 'x4'))}" for name in names)
    shown += seeds_missing(found, [("rebinding", name) for name in names])
    return decide([delta - attention > attention - total], shown)


_OVERWRITING = (
    f"{', '.join(DECIDING_BINDINGS['rebinding-64'][1:])} at least {100 * MARGIN:.0f} points above that of the sum rule"
)
LATER_WORK: tuple[Claim[RecallScores], ...] = (
    Claim(
        "parity needs β beyond 1",
        "Grazzi et al. (2024)",
        "The delta rule with β in (0, 1) cannot learn parity; with β in (0, 2) it does, and goes on beyond the length "
        "that it was trained on.",
        f"every seed at least {RIGHT:.0%} right in the 2nd to 6th length with β in (0, 2), and at most "
        f"{100 * NEAR_CHANCE:.0f} points above guessing with β in (0, 1)",
        tracked("parity", "signed-delta-2", "signed-delta", 1 / 2),
    ),
    Claim(
        "counting needs two writes",
        "Siems et al. (2025)",
        "One layer that can only reflect cannot count modulo 3; two writes per step are a rotation.",
        f"every seed at least {RIGHT:.0%} right in the 2nd to 6th length with two writes per step, and at most "
        f"{100 * NEAR_CHANCE:.0f} points above guessing with one, β in (0, 2)",
        tracked("counting", "product2", "signed-delta-2", 1 / 3),
    ),
    Claim(
        "words over S₃ need two writes",
        "Siems et al. (2025)",
        "More writes per step track larger groups: S₃ takes two.",
        f"every seed at least {RIGHT:.0%} right in the 2nd to 6th length with two writes per step; with one, at most "
        "30 points above guessing",
        tracked("words-s3", "product2", "signed-delta-2", 1 / 6 + 0.25),
        "One write tracks the sign of the permutation, which is worth a third instead of a sixth.",
    ),
    Claim(
        "words over S₅ by exchanges need β beyond 1",
        "Grazzi et al. (2024)",
        "Exchanges of two are reflections: one write with β in (0, 2) tracks the 120 states of S₅.",
        f"every seed at least {RIGHT:.0%} right in the 2nd to 6th length with β in (0, 2), and at most "
        f"{100 * NEAR_CHANCE:.0f} points above guessing with β in (0, 1)",
        tracked("words-s5-swaps", "signed-delta-2", "signed-delta", 1 / 120),
    ),
    Claim(
        "words over S₅ by circles of three need two writes",
        "Siems et al. (2025)",
        "Circles of three are rotations: two writes per step track them.",
        f"every seed at least {RIGHT:.0%} right in the 2nd to 6th length with two writes per step, and at most "
        f"{100 * NEAR_CHANCE:.0f} points above guessing with one",
        tracked("words-s5-cycles", "product2", "signed-delta-2", 1 / 60),
    ),
    Claim(
        "overwriting in context separates the rules",
        "Sec. 4.2",
        "The sum rule cannot replace an association; the delta rule is made for it.",
        f"64 variables, of which some are rebound: the means of {_OVERWRITING}, in memories of equal size",
        overwriting("all"),
    ),
    Claim(
        "what was overwritten separates the rules",
        "Sec. 4.2",
        "The sum rule cannot replace an association; the delta rule is made for it.",
        f"the same, of questions about variables that were rebound once: the means of {_OVERWRITING}",
        overwriting("1"),
    ),
    Claim(
        "replacing lasts",
        "Sec. 4.2",
        "What has been replaced often is read like what was written once.",
        f"8 variables, 4 × the trained length: at least {RIGHT:.0%} right on average with sum normalisation, NLMS, L2 "
        "and centred L2",
        judge_rebinding,
    ),
    Claim(
        "attention normalisation undoes the delta rule",
        "Sec. 4.2, App. A.2",
        "With attention normalisation what a write adds and what it removes do not balance.",
        "8 variables, 4 × the trained length: the attention-normalised delta rule is nearer to the sum rule than to "
        "the sum-normalised delta rule",
        judge_attention,
    ),
)
