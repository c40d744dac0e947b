"""How a claim is decided."""

import pytest

from fastweights.experiments.claim import NOT_RUN, decide, sizes


@pytest.mark.parametrize(
    ("parts", "verdict"),
    [
        ([True, True], "holds"),
        ([True, False], "holds in part"),
        ([False, False], "does not hold"),
    ],
)
def test_a_claim_holds_as_far_as_its_parts_do(parts: list[bool], verdict: str) -> None:
    finding = decide(parts, "evidence")
    assert (finding.verdict, finding.evidence) == (verdict, "evidence")


def test_without_parts_nothing_is_decided() -> None:
    assert decide([], "evidence") == NOT_RUN


def test_sizes_are_a_list_in_words() -> None:
    assert sizes([20, 40]) == "20, 40"
    assert sizes([]) == "none"
