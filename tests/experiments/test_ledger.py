"""The ledger: a row for each claim of every family."""

from fastweights.experiments.claim import Claim, Finding
from fastweights.experiments.contrast.claims import CLAIMS as CONTRAST_CLAIMS
from fastweights.experiments.contrast.claims import REVIEW as ABOUT_CONTRAST
from fastweights.experiments.documents.claims import LATER_WORK as ABOUT_DOCUMENTS
from fastweights.experiments.growth.claims import CLAIMS as GROWTH_CLAIMS
from fastweights.experiments.growth.claims import REVIEW as ABOUT_GROWTH
from fastweights.experiments.images.claims import REVIEW as ABOUT_IMAGES
from fastweights.experiments.language_models.claims import CLAIMS as LANGUAGE_CLAIMS
from fastweights.experiments.ledger import answers, disagreements, later_work, ledger, review, row
from fastweights.experiments.questions.claims import REVIEW as ABOUT_QUESTIONS
from fastweights.experiments.recall.claims import LATER_WORK
from fastweights.experiments.retrieval.claims import CLAIMS as RETRIEVAL_CLAIMS
from fastweights.experiments.retrieval.claims import DISAGREEMENTS
from fastweights.experiments.retrieval.claims import REVIEW as ABOUT_RETRIEVAL
from fastweights.experiments.translation.claims import CLAIMS as TRANSLATION_CLAIMS
from retrieval_records import records_as_published


def test_it_has_a_row_for_each_claim() -> None:
    table = ledger({})
    every = (RETRIEVAL_CLAIMS, TRANSLATION_CLAIMS, LANGUAGE_CLAIMS, CONTRAST_CLAIMS, GROWTH_CLAIMS)
    assert len(table.rows) == sum(map(len, every))
    assert {row[-1] for row in table.rows[: len(RETRIEVAL_CLAIMS)]} == {"not run yet"}
    # What the architecture alone decides needs no runs.
    assert {row[-1] for row in table.rows} == {"not run yet", "holds"}
    assert all(len(row) == len(table.columns) for row in table.rows)


def test_the_answers_are_those_of_the_review() -> None:
    assert [verdict for _, verdict in answers({}).rows] == [row[-1] for row in review({}).rows]


def test_questions_of_a_review_and_claims_of_later_work_have_tables_of_their_own() -> None:
    asked = (ABOUT_RETRIEVAL, ABOUT_CONTRAST, ABOUT_GROWTH, ABOUT_QUESTIONS, ABOUT_IMAGES)
    for table, count in ((review({}), sum(map(len, asked))), (later_work({}), len(ABOUT_DOCUMENTS + LATER_WORK))):
        assert len(table.rows) == count
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
    assert row(claim, claim.judge(4), 5) == (
        "Sec. 1",
        "It is so. A remark.",
        "even",
        "holds: 4",
        "5 is odd",
        "does not hold",
    )


def test_disagreements_of_all_families_are_listed() -> None:
    assert disagreements().rows == DISAGREEMENTS
    assert all(len(row) == 4 for row in disagreements().rows)
