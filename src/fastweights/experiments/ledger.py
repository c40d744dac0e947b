"""The ledger: each claim of the paper, judged from records by one rule; and where its text differs from its code."""

from collections.abc import Iterable

from fastweights.experiments.claim import NOT_RUN, Claim, Finding, Runs
from fastweights.experiments.families import family_modules
from fastweights.experiments.records import Records
from fastweights.reporting import Table


def ledger(records: Records) -> Table:
    """The claims of every family."""
    return claims_table(
        row(claim, claim.judge(module.theirs()) if hasattr(module, "theirs") else NOT_RUN, module.ours(records))
        for module in family_modules("claims")
        for claim in getattr(module, "CLAIMS", ())
    )


def review(records: Records) -> Table:
    """What a review of the paper asked, of the families that answer it (REVIEW), and what came out."""
    caption = "Questions of a review of the paper. Verdicts follow from the records by the stated rule."
    return judged("review", caption, ("asked", "question"), "REVIEW", records)


def answers(records: Records) -> Table:
    """The same in two columns: question and verdict."""
    caption = "What a review asked; the rule and the runs behind each verdict are in the next table."
    return Table("answers", caption, ("question", "verdict"), tuple((row[1], row[-1]) for row in review(records).rows))


def later_work(records: Records) -> Table:
    """What later work says about such memories, of the families that look at it (LATER_WORK), and what came out."""
    caption = "Claims of later work. Verdicts follow from the records by the stated rule."
    return judged("later-work", caption, ("where", "what is said"), "LATER_WORK", records)


def judged(name: str, caption: str, columns: tuple[str, str], claims: str, records: Records) -> Table:
    """Claims that have no published runs, by the name that the families give them."""
    rows = []
    for module in family_modules("claims"):
        for claim in getattr(module, claims, ()):
            finding = claim.judge(module.ours(records))
            rows.append((claim.where, claim.says, claim.rule, finding.evidence, finding.verdict))
    return Table(name, caption, (*columns, "rule", "our runs", "verdict"), tuple(rows), wide=True)


def claims_table(rows: Iterable[tuple[str, ...]]) -> Table:
    """Each claim with what the published runs show, what ours show, and the verdict on ours."""
    return Table(
        "claims",
        "Verdicts follow from the records by the rule in the third column, and from nothing else.",
        ("where", "what the paper says", "rule", "published runs", "our runs", "verdict"),
        tuple(rows),
        wide=True,
    )


def row(claim: Claim[Runs], published: Finding, ours: Runs) -> tuple[str, ...]:
    """A claim and what becomes of it, beside what the published runs say."""
    finding = claim.judge(ours)
    remark = f" {claim.remark}" if claim.remark else ""
    return (
        claim.where,
        f"{claim.says}{remark}",
        claim.rule,
        f"{published.verdict}: {published.evidence}",
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
