"""What the review asks of retrieval: normalisations that compete with sum normalisation."""

from fastweights.experiments.claim import NOT_RUN, Claim, Finding, decide
from fastweights.experiments.retrieval.outcomes import Outcomes
from fastweights.runs.display import number

MARGIN = 0.01
"""Of the loss, by which another normalisation may be behind."""
PAPER = "delta"
OTHERS = {"delta-l2": "L2", "delta-centred": "centred L2", "nlms": "NLMS"}


def judge_competes(outcomes: Outcomes) -> Finding:
    """Each of the others against sum normalisation, at every S that all of them were run at."""
    of_rule = {rule: outcomes.where("overwriting", "dpfp1", rule) for rule in (PAPER, *OTHERS)}
    common = set.intersection(*(set(found.sizes()) for found in of_rule.values()))
    if not common:
        return NOT_RUN
    evidence = []
    for size in sorted(common):
        shown = [f"{name} {number(of_rule[rule].best(size))}" for rule, name in {PAPER: "sum", **OTHERS}.items()]
        evidence.append(f"S = {size}: {', '.join(shown)}")
    return decide(
        [all(of_rule[rule].best(size) <= of_rule[PAPER].best(size) + MARGIN for size in common) for rule in OTHERS],
        f"best losses, medians over seeds; {'; '.join(evidence)}",
    )


REVIEW: tuple[Claim[Outcomes], ...] = (
    Claim(
        "normalisations on retrieval",
        "review, “novel normalizations competitive to the naive sum normalization”",
        "Do other normalisations reach what sum normalisation reaches on retrieval (setting 2, DPFP-1)?",
        f"at every S the loss of L2, centred L2 and NLMS is at most {MARGIN:g} above that of sum normalisation",
        judge_competes,
    ),
)
