"""The ledger: each claim of the paper, judged from records by one rule; and where its text differs from its code."""

from collections.abc import Iterable
from typing import Any

from fastweights.experiments.claim import Claim, Runs
from fastweights.experiments.families import family_modules
from fastweights.experiments.records import Records
from fastweights.reporting.report import Table


def ledger(records: Records) -> Table:
    """The paper's claims, of every family."""
    return claims_table(
        row(claim, module.theirs(), module.ours(records))
        for module in claim_modules(beyond=False)
        for claim in module.CLAIMS
    )


def beyond_the_paper(records: Records) -> Table:
    """What others say or ask about such memories, of every family; there are no published runs to compare with."""
    rows = (
        row(claim, module.theirs(), module.ours(records))
        for module in claim_modules(beyond=True)
        for claim in module.CLAIMS
    )
    return Table(
        "claims-beyond",
        "Verdicts follow from the records by the rule in the third column, and from nothing else.",
        ("where", "what is said", "rule", "our runs", "verdict"),
        tuple((*cells[:3], *cells[4:]) for cells in rows),
        wide=True,
    )


def claim_modules(beyond: bool) -> Iterable[Any]:
    """The modules with claims of the paper, or those that say that theirs go beyond it."""
    return (module for module in family_modules("claims") if getattr(module, "BEYOND_THE_PAPER", False) == beyond)


def claims_table(rows: Iterable[tuple[str, ...]]) -> Table:
    """Each claim with what the published runs show, what ours show, and the verdict on ours."""
    return Table(
        "claims",
        "Verdicts follow from the records by the rule in the third column, and from nothing else.",
        ("where", "what the paper says", "rule", "published runs", "our runs", "verdict"),
        tuple(rows),
        wide=True,
    )


def row(claim: Claim[Runs], theirs: Runs, ours: Runs) -> tuple[str, ...]:
    """A claim and what becomes of it."""
    published_finding, finding = claim.judge(theirs), claim.judge(ours)
    remark = f" {claim.remark}" if claim.remark else ""
    return (
        claim.where,
        f"{claim.says}{remark}",
        claim.rule,
        f"{published_finding.verdict}: {published_finding.evidence}",
        finding.evidence,
        finding.verdict,
    )


def disagreements() -> Table:
    """Where the text of the paper differs from its code and logs, and what is done here."""
    return Table(
        "disagreements",
        "Where the text of the paper differs from its published code and logs.",
        ("about", "text", "code and logs", "here"),
        tuple(row for module in family_modules("claims") for row in getattr(module, "DISAGREEMENTS", ())),
        wide=True,
    )
