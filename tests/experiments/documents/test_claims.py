"""The verdict on a memory of the document, from records with a known number of wrong words."""

import pytest

from document_records import records
from fastweights.experiments.documents.claims import LATER_WORK, ours


@pytest.mark.parametrize(
    ("carried", "alone", "verdict"),
    [(0, 6, "holds"), (6, 0, "does not hold"), (3, 3, "undecided")],
)
def test_the_rule_decides(carried: int, alone: int, verdict: str) -> None:
    (claim,) = LATER_WORK
    finding = claim.judge(ours(records((1.9, carried), (2.0, alone))))
    assert finding.verdict == verdict
    assert "delta rule, test: " in finding.evidence
    assert claim.judge(ours({})).verdict == "not run yet"
