"""Claims about translation, judged on the paper's own numbers and on records."""

import pytest

from fastweights.experiments.translation.claims import CLAIMS, ours, theirs
from fastweights.experiments.translation.scores import PAPER, Corpora
from fastweights.runs.record import Record
from fastweights.training.run import Run
from translation_records import record, run_of

BY_NAME = {claim.name: claim for claim in CLAIMS}


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_the_paper_agrees_with_itself(claim: object) -> None:
    assert claim.judge(PAPER).verdict == "holds"  # type: ignore[attr-defined]


def reached(**wrong: tuple[int, ...]) -> Corpora:
    """Models with so many wrong sentences of every ten, one number a seed."""
    records: dict[Run, Record] = {}
    for name, seeds in wrong.items():
        for seed, count in enumerate(seeds):
            records[run_of(name.replace("_", "-"), seed)] = record(count)
    return ours(records)


@pytest.mark.parametrize(
    ("name", "models", "verdict"),
    [
        ("DPFP is better than Linear", {"dpfp2": (2, 2, 2), "linear": (9, 9, 9)}, "holds"),
        ("DPFP is better than Linear", {"dpfp2": (9, 9, 9), "linear": (2, 2, 2)}, "does not hold"),
        ("DPFP is better than Linear", {"dpfp2": (5, 5, 5), "linear": (5, 5, 5)}, "undecided"),
        # The mean differs by much, but it is one seed of three that makes it.
        ("DPFP is better than Linear", {"dpfp2": (0, 6, 6), "linear": (10, 5, 5)}, "undecided"),
        ("DPFP is better than Linear", {"dpfp2": (2,)}, "not run yet"),
        ("DPFP is better than a small Performer", {"dpfp2": (2, 2), "performer_m64": (9, 9)}, "holds"),
        ("the Performer needs many features", {"performer_m128": (2, 2), "performer_m16": (9, 9)}, "holds"),
        ("a large Performer is better than DPFP", {"performer_m128": (9, 9), "dpfp4": (2, 2)}, "does not hold"),
        ("softmax is better than Linear", {"standard": (1, 2), "linear": (8, 9)}, "holds"),
        ("a large Performer is as good as softmax", {"standard": (3, 3), "performer_m128": (3, 3)}, "holds"),
        ("a large Performer is as good as softmax", {"standard": (2, 2), "performer_m128": (9, 9)}, "does not hold"),
        ("a large Performer is as good as softmax", {"standard": (4,), "performer_m128": (-5,)}, "undecided"),
        ("a large Performer is as good as softmax", {"standard": (0, 6, 6), "performer_m128": (10, 5, 5)}, "undecided"),
    ],
)
def test_the_rule_decides(name: str, models: dict[str, tuple[int, ...]], verdict: str) -> None:
    assert BY_NAME[name].judge(reached(**models)).verdict == verdict


def test_evidence_names_corpus_scores_and_chance() -> None:
    evidence = BY_NAME["DPFP is better than Linear"].judge(reached(dpfp2=(2, 2), linear=(9, 9))).evidence
    assert evidence.startswith("pairs en-de, 3,000 updates: dpfp2 and linear: valid ")
    assert "p = 0.00" in evidence
    paper = BY_NAME["DPFP is better than Linear"].judge(PAPER).evidence
    assert paper == ("WMT14 en-de: dpfp2 and linear: valid 26.2 against 25.5 (+0.7); test 26.9 against 26.8 (+0.1)")


def test_the_papers_numbers_and_ours_are_in_one_form() -> None:
    assert theirs() is PAPER
    assert ours({}) == Corpora()
    assert BY_NAME["the size of the feature spaces"].judge(Corpora()).evidence == (
        "256: Performer 256, DPFP 256; 384: Performer 384, DPFP 384; 512: Performer 512, DPFP 512"
    )
