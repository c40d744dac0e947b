"""What is claimed about the toy task."""

from collections.abc import Mapping

from fastweights.experiments.claim import NOT_RUN, Claim, Finding, decide
from fastweights.runs.display import number
from toy_family.fits import losses

Fits = Mapping[int, float]

ours = losses


def judge_more_is_better(fits: Fits) -> Finding:
    if len(fits) < 2:
        return NOT_RUN
    few, many = fits[min(fits)], fits[max(fits)]
    return decide([many < few], f"{number(few)} with {min(fits)} points, {number(many)} with {max(fits)}")


CLAIMS: tuple[Claim[Fits], ...] = (
    Claim(
        "more points fit better",
        "toy",
        "The more points, the nearer the line.",
        "loss with most points below that with fewest",
        judge_more_is_better,
    ),
)
