"""The ledger: each claim of the paper about these experiments, judged from records; and where text and logs differ."""

from fastweights.reporting import capacity_claims, language_claims, overwriting_claims
from fastweights.reporting.claim import Claim, Runs
from fastweights.experiments.retrieval.outcomes import Outcomes, published
from fastweights.experiments.language_models.perplexities import PAPER, Perplexities
from fastweights.reporting.report import Table

SYNTHETIC_CLAIMS: tuple[Claim[Outcomes], ...] = (*capacity_claims.CLAIMS, *overwriting_claims.CLAIMS)

DISAGREEMENTS = (
    (
        "length of evaluation sequences, setting 2",
        "as in training, L = 2S",
        "L = S in both settings: fewer keys are overwritten, and the floor of order-blind rules halves",
        "both are recorded at every evaluation; stopping follows the published one",
    ),
    (
        "queries of an evaluation",
        "all possible queries of 20 sequences",
        "the keys with the 200 lowest indices",
        "as published, for comparison; the text's with `--set protocol=text`",
    ),
    (
        "mean of an evaluation",
        "over all queries",
        "of the means of batches: the keys of a short last batch weigh up to four times more",
        "as published, for comparison; the text's with `--set protocol=text`",
    ),
    (
        "loss shown in Figures 2 and 5",
        "the best",
        "the last",
        "the best; both are in the records",
    ),
    (
        "patience",
        "1000 steps without progress",
        "11 evaluations, 1100 steps",
        "as published",
    ),
    (
        "FAVOR+ in evaluation",
        "features drawn once and kept",
        "redrawn for every batch of an evaluation",
        "as published; fixed under the text's protocol",
    ),
    (
        "initial scale",
        "not stated",
        "W_K, W_Q uniform in ±1/√d_key whatever their fan-in: |k|² grows with S",
        "as published; this is what makes FAVOR+ underflow",
    ),
    (
        "repetitions",
        "not stated",
        "one seed, 1, whatever was asked for",
        "one seed in Figures 2, 4 and 5 (five of softmax attention), three in Figure 3",
    ),
)


def ledger(
    ours: Outcomes, models: Perplexities | None = None, claims: tuple[Claim[Outcomes], ...] = SYNTHETIC_CLAIMS
) -> Table:
    """Each claim with what the published runs show, what ours show, and the verdict on ours.

    Claims about language models are left out if no perplexities are given.
    """
    rows = [row(claim, published(), ours) for claim in claims]
    if models is not None:
        rows += [row(claim, PAPER, models) for claim in language_claims.CLAIMS]
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
        DISAGREEMENTS,
        wide=True,
    )
