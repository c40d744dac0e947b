"""How a claim is decided, and how numbers are written in its evidence."""

import pytest

from fastweights.reporting.claim import NOT_RUN, decide, number, sizes


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


@pytest.mark.parametrize(
    ("loss", "text"),
    [(0.12345, "0.123"), (0.01, "0.010"), (0.00123, "0.0012"), (0.0, "0"), (float("nan"), "not a number")],
)
def test_a_loss_has_the_digits_that_mean_something(loss: float, text: str) -> None:
    assert number(loss) == text


def test_sizes_are_a_list_in_words() -> None:
    assert sizes([20, 40]) == "20, 40"
    assert sizes([]) == "none"
