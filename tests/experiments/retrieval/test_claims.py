"""Each claim is judged by its rule: what the published runs are known to show, and what changed runs would."""

from dataclasses import replace

import pytest

from fastweights.experiments.claim import Claim
from fastweights.experiments.retrieval.claims import CLAIMS, DISAGREEMENTS, ours, theirs
from fastweights.experiments.retrieval.outcomes import Outcome, Outcomes, published

BY_NAME: dict[str, Claim[Outcomes]] = {claim.name: claim for claim in CLAIMS}


def changed(model: str, rule: str, size: int, setting: str = "overwriting", **fields: object) -> Outcomes:
    """The published runs with one of them changed."""
    chosen = published().where(setting, model, rule, size)
    assert len(chosen.all) == 1
    return Outcomes(tuple(replace(o, **fields) if o in chosen.all else o for o in published()))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "verdict", "evidence"),
    [
        ("capacity is bounded by d_dot", "holds", "80 runs"),
        ("Linear fails from S = 60", "holds", "S = 40: 0.00083, S = 60: 0.025"),
        ("DPFP fails near d_dot", "holds", "DPFP-1: up to S = 120 of 128; DPFP-2: up to S = 260 of 256"),
        ("FAVOR+ never solves the task", "holds", "0.024 (FAVOR+ 512, S = 20)"),
        ("FAVOR+ fails because of its features", "not run yet", "no stabilised runs"),
        ("softmax is best", "holds in part", "beaten at S = 360"),
        ("softmax struggles above S = 500", "holds in part", "S = 360, 460, 500, 520, 540"),
        ("the delta rule is best", "holds", "0.00077"),
        ("the sum rule fails", "holds", "best loss 0.097; order-blind floor 0.108"),
        ("independent of capacity, like for like", "holds", "20 of 20"),
        (
            "better than all approaches in all problems",
            "holds in part",
            "Linear, delta rule loses at S = 100, 120, 140, 160, 180, 200",
        ),
        ("Figure 5: DPFP-2 fails at S = 100", "holds", "0.085 in 300 steps"),
        ("one stopping loss for all", "does not hold", "0.025: 0.040 at S = 20"),
        ("FAVOR+ with the delta rule gives not-a-number", "holds in part", "S = 40, 60, 80"),
    ],
)
def test_what_the_published_runs_show(name: str, verdict: str, evidence: str) -> None:
    finding = BY_NAME[name].judge(published())
    assert finding.verdict == verdict
    assert evidence in finding.evidence


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_without_runs_nothing_is_decided(claim: Claim[Outcomes]) -> None:
    assert claim.judge(Outcomes(())).verdict == "not run yet"


@pytest.mark.parametrize(
    ("name", "outcomes", "verdict"),
    [
        ("capacity is bounded by d_dot", changed("elu", "sum", 300, "capacity", best=0.3), "does not hold"),
        ("Linear fails from S = 60", changed("elu", "sum", 40, "capacity", best=0.02), "holds in part"),
        ("DPFP fails near d_dot", changed("dpfp1", "sum", 600, "capacity", best=0.001), "holds in part"),
        ("FAVOR+ never solves the task", changed("favor64", "sum", 20, "capacity", best=0.0005), "does not hold"),
        ("the delta rule is best", changed("dpfp1", "delta", 20, best=0.05), "holds in part"),
        ("the sum rule fails", changed("dpfp1", "sum", 20, best=0.002), "does not hold"),
        ("independent of capacity, like for like", changed("dpfp1", "delta", 200, best=0.3), "holds in part"),
        ("Figure 5: DPFP-2 fails at S = 100", changed("dpfp2", "delta", 100, best=0.0005), "does not hold"),
        ("one stopping loss for all", changed("tanh", "schlag2021", 20, best=0.0005), "holds"),
    ],
)
def test_other_runs_would_change_the_verdict(name: str, outcomes: Outcomes, verdict: str) -> None:
    assert BY_NAME[name].judge(outcomes).verdict == verdict


@pytest.mark.parametrize(("stabilised", "verdict"), [(0.1, "does not hold"), (0.48, "holds")])
def test_stabilising_favor_decides_what_its_failure_means(stabilised: float, verdict: str) -> None:
    run = Outcome("capacity", "favor128-stabilised", "sum", 100, 1, stabilised, stabilised, 1000)
    finding = BY_NAME["FAVOR+ fails because of its features"].judge(Outcomes((*published(), run)))
    assert finding.verdict == verdict


def test_names_of_claims_differ() -> None:
    assert len(BY_NAME) == len(CLAIMS) >= 14


def test_both_sides_are_judged_from_runs() -> None:
    assert theirs() == published()
    assert not ours({})


def test_disagreements_say_what_is_done_here() -> None:
    assert all(len(row) == 4 and all(row) for row in DISAGREEMENTS)
