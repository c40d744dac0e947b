"""The ledger: a row for each claim of every family."""

from fastweights.experiments.claim import Claim, Finding
from fastweights.experiments.images.claims import CLAIMS as IMAGE_CLAIMS
from fastweights.experiments.language_models.claims import CLAIMS as LANGUAGE_CLAIMS
from fastweights.experiments.ledger import beyond_the_paper, disagreements, ledger, row
from fastweights.experiments.questions.claims import CLAIMS as QUESTION_CLAIMS
from fastweights.experiments.recall.claims import CLAIMS as RECALL_CLAIMS
from fastweights.experiments.retrieval.claims import CLAIMS as RETRIEVAL_CLAIMS
from fastweights.experiments.retrieval.claims import DISAGREEMENTS
from fastweights.experiments.translation.claims import CLAIMS as TRANSLATION_CLAIMS
from retrieval_records import records_as_published


def test_it_has_a_row_for_each_claim() -> None:
    table = ledger({})
    assert len(table.rows) == len(RETRIEVAL_CLAIMS) + len(TRANSLATION_CLAIMS) + len(LANGUAGE_CLAIMS)
    assert {row[-1] for row in table.rows[: len(RETRIEVAL_CLAIMS)]} == {"not run yet"}
    # What the architecture alone decides needs no runs.
    assert {row[-1] for row in table.rows} == {"not run yet", "holds"}
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_claims_of_others_have_a_table_of_their_own() -> None:
    table = beyond_the_paper({})
    assert len(table.rows) == len(RECALL_CLAIMS) + len(QUESTION_CLAIMS) + len(IMAGE_CLAIMS)
    assert {row[-1] for row in table.rows} == {"not run yet"}
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_the_same_runs_get_the_same_verdict_as_the_published_ones() -> None:
    verdicts = {row[1].partition(".")[0]: row[-1] for row in ledger(records_as_published()).rows}
    assert verdicts["Our update rule outperforms all other variants"] == "holds"
    assert verdicts["In all problems our update rule outperforms all other approaches"] == "holds in part"


def test_a_row_shows_both_findings_and_judges_ours() -> None:
    claim: Claim[int] = Claim(
        "name",
        "Sec. 1",
        "It is so.",
        "even",
        lambda n: Finding("holds", f"{n}") if n % 2 == 0 else Finding("does not hold", f"{n} is odd"),
        "A remark.",
    )
    assert row(claim, 4, 5) == ("Sec. 1", "It is so. A remark.", "even", "holds: 4", "5 is odd", "does not hold")


def test_disagreements_of_all_families_are_listed() -> None:
    assert disagreements().rows == DISAGREEMENTS
    assert all(len(row) == 4 for row in disagreements().rows)
