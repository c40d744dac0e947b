"""Claims about language models, judged on the paper's own numbers and on changed ones."""

import pytest

from fastweights.experiments.language_models.claims import CLAIMS, ours, theirs
from fastweights.experiments.language_models.perplexities import PAPER, Perplexities, Perplexity

BY_NAME = {claim.name: claim for claim in CLAIMS}


def reached(**models: float) -> Perplexities:
    return Perplexities({"cpu": {name.replace("_", "-"): Perplexity(test, test) for name, test in models.items()}})


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_the_paper_agrees_with_itself(claim: object) -> None:
    assert claim.judge(PAPER).verdict == "holds"  # type: ignore[attr-defined]


def test_evidence_is_told_by_size() -> None:
    finding = BY_NAME["the delta rule improves every map"].judge(PAPER)
    assert finding.evidence.startswith("small: linear-delta 35.5, linear-sum 38.3; medium: linear-delta 31.5")
    assert "medium: 33.0 with truncated context, > 1600 carried" in BY_NAME["the sum rule breaks"].judge(PAPER).evidence
    assert "gains 1.8 with Performer and 3.8 with DPFP-1" in BY_NAME["DPFP gains most"].judge(PAPER).evidence


@pytest.mark.parametrize(
    ("name", "models", "verdict"),
    [
        ("the delta rule improves every map", {"linear_sum": 300.0, "linear_delta": 301.0}, "does not hold"),
        (
            "the delta rule improves every map",
            {"linear_sum": 300.0, "linear_delta": 290.0, "performer_sum": 300.0, "performer_delta": 310.0},
            "holds in part",
        ),
        ("softmax stays ahead", {"transformer": 310.0, "linear_delta": 300.0}, "does not hold"),
        ("positions are not needed", {"linear_delta_nopos": 300.0, "linear_delta": 310.0}, "holds"),
        ("carried memories are better", {"linear_delta_nopos_carried": 300.0, "linear_delta": 310.0}, "not run yet"),
        ("the sum rule breaks", {"linear_sum": 300.0, "linear_sum_nopos_carried": 590.0}, "does not hold"),
        ("the sum rule breaks", {"linear_sum": 300.0, "linear_sum_nopos_carried": 610.0}, "holds"),
        (
            "DPFP gains most",
            {"performer_wide_sum": 310.0, "performer_wide_delta": 300.0, "dpfp_sum": 308.0, "dpfp_delta": 299.0},
            "holds in part",
        ),
    ],
)
def test_the_rule_decides(name: str, models: dict[str, float], verdict: str) -> None:
    assert BY_NAME[name].judge(reached(**models)).verdict == verdict


def test_the_published_gradient_is_named_beside_the_complete_one() -> None:
    carried = {"linear_sum_nopos_carried": 330.0, "linear_sum_nopos_carried_published": 350.0}
    finding = BY_NAME["the sum rule breaks"].judge(reached(linear_sum=300.0, **carried))
    assert finding.evidence.endswith("330.0 carried, 350.0 carried and trained with the published gradient")
    assert finding.verdict == "does not hold"


def test_gates_are_counted() -> None:
    finding = BY_NAME["gates are cheap"].judge(Perplexities())
    assert finding.evidence == "small: 16,384 more than the sum rule; medium: 32,768 more than the sum rule"


def test_the_papers_numbers_and_ours_are_in_one_form() -> None:
    assert theirs() is PAPER
    assert ours({}) == Perplexities()
