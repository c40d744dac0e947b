"""Claims about question answering: what a memory that replaces is good for, judged by test answers of bAbI."""

from collections.abc import Callable

from fastweights.experiments.claim import NOT_RUN, Claim, Finding, decide
from fastweights.experiments.questions.presets import DECIDING_MODELS, DECIDING_TASKS, SOLVED, scores
from fastweights.experiments.scores import AccuracyScores, percent, seeds_missing

SAME = 0.02
"""Two models whose accuracies are this close count as equally good where nothing changes."""

ours = scores


def judge_solved(answers: AccuracyScores) -> Finding:
    """For every task the best model of the delta family by its mean over seeds."""
    held, evidence, judged = [], [], []
    for task in DECIDING_TASKS:
        means = {
            model: mean
            for model in DECIDING_MODELS
            if (mean := answers.mean(("10000", str(task), model), "test")) is not None
        }
        if means:
            best = max(means, key=means.__getitem__)
            held.append(means[best] > SOLVED)
            judged.append(("10000", str(task), best))
            evidence.append(f"qa{task} {percent(answers.of(('10000', str(task), best), 'test'))} ({best})")
    if len(judged) < len(DECIDING_TASKS):
        return NOT_RUN
    return decide(held, "; ".join(evidence) + seeds_missing(answers, judged))


def ahead_of_sum(model: str, tasks: tuple[int, ...]) -> Callable[[AccuracyScores], Finding]:
    """A judge for: more right answers than the sum rule on every one of these tasks."""

    def judge(answers: AccuracyScores) -> Finding:
        held, evidence = [], []
        for task in tasks:
            mine = answers.mean(("10000", str(task), model), "test")
            other = answers.mean(("10000", str(task), "sum"), "test")
            if mine is not None and other is not None:
                held.append(mine > other)
                evidence.append(f"qa{task} {mine:.1%} against {other:.1%}")
        return decide(held, "; ".join(evidence)) if len(held) == len(tasks) else NOT_RUN

    return judge


def judge_static(answers: AccuracyScores) -> Finding:
    delta, other = (answers.mean(("10000", "15", model), "test") for model in ("delta-l2", "sum"))
    if delta is None or other is None:
        return NOT_RUN
    return decide([abs(delta - other) <= SAME], f"qa15: delta rule with L2 {delta:.1%}, sum rule {other:.1%}")


REVIEW: tuple[Claim[AccuracyScores], ...] = (
    Claim(
        "the delta family answers questions about things that move",
        "asked by a review",
        "The memory could be tried on question answering, where relations change: qa1, qa5, qa6 and qa11.",
        f"more than {SOLVED:.0%} right on each with 10,000 questions, by the best of {', '.join(DECIDING_MODELS)}",
        judge_solved,
    ),
    Claim(
        "the delta rule is ahead of the sum rule where relations change",
        "Sec. 4.2",
        "A memory should be able to replace an association.",
        "more right answers of the delta rule with L2 than of the sum rule on qa1, qa2, qa5, qa6 and qa11, 10,000 "
        "questions",
        ahead_of_sum("delta-l2", (1, 2, 5, 6, 11)),
    ),
    Claim(
        "where nothing changes the rules are alike",
        "Sec. 4.2",
        "Nothing has to be replaced in qa15, a control.",
        f"accuracies of the delta rule with L2 and of the sum rule within {100 * SAME:.0f} points, 10,000 questions",
        judge_static,
    ),
)
