"""BLEU from statistics and the paired bootstrap: sacreBLEU's own numbers, worked examples, bad input."""

import numpy as np
import pytest
from sacrebleu.metrics import BLEU
from sacrebleu.significance import PairedTest

from fastweights.evaluation.bleu import score_translations
from fastweights.evaluation.bootstrap import bleu_of, check_statistics, compare_statistics

REFERENCES = [f"ein Hund läuft über die grüne Wiese Nummer {n} ." for n in range(40)]


def damaged(every: int) -> list[str]:
    """Every so many words wrong."""
    lines = []
    for number, line in enumerate(REFERENCES):
        words = line.split()
        lines.append(" ".join("x" if (place + number) % every == 0 else word for place, word in enumerate(words)))
    return lines


@pytest.mark.parametrize(
    ("hypotheses", "references"),
    [
        (damaged(5), REFERENCES),
        (["the cat sat on the"], ["the cat sat on the mat"]),
        (["the dog sat"], ["the cat sat on the mat"]),  # no trigram of the reference, no 4-gram at all
        (["the dog sat on a rug"], ["the cat sat on the mat"]),
        (["", "nothing right here at all"], ["a b c d", "e f g h"]),
    ],
)
def test_bleu_of_the_sum_is_that_of_sacrebleu(hypotheses: list[str], references: list[str]) -> None:
    statistics = np.array(score_translations(hypotheses, references).statistics)
    assert float(bleu_of(statistics.sum(0))) == pytest.approx(BLEU().corpus_score(hypotheses, [references]).score)


def test_statistics_are_counts() -> None:
    """5 of 6 words, 4 of 5 bigrams, 3 of 4 trigrams, 2 of 3 four-grams; six words for six."""
    (statistics,) = score_translations(["the cat sat on the rug"], ["the cat sat on the mat"]).statistics
    assert list(statistics) == [5, 4, 3, 2, 6, 5, 4, 3, 6, 6]


@pytest.mark.parametrize(("first", "second"), [(4, 6), (6, 4), (5, 6), (4, 4)])
def test_the_paired_bootstrap_is_that_of_sacrebleu(first: int, second: int) -> None:
    baseline, system = damaged(first), damaged(second)
    if first == second:
        system[3] = REFERENCES[3]
    theirs = PairedTest(
        [("a", baseline), ("b", system)], {"BLEU": BLEU()}, [REFERENCES], test_type="bs", n_samples=500
    )()[1]["BLEU"]
    ours = compare_statistics(
        *([score_translations(lines, REFERENCES).statistics] for lines in (baseline, system)), samples=500
    )
    assert ours.difference == pytest.approx(theirs[1].score - theirs[0].score)
    assert ours.p_value == pytest.approx(theirs[1].p_value)


def test_seeds_are_averaged() -> None:
    """The mean of two seeds stands for a system; twice the same seed is as good as once."""
    good, bad, middle = (score_translations(damaged(every), REFERENCES).statistics for every in (6, 4, 5))
    once, twice = compare_statistics([bad], [good]), compare_statistics([bad, bad], [good, good])
    assert twice == once
    mixed = compare_statistics([bad, good], [middle])
    expected = bleu_of(np.sum(middle, 0)) - (bleu_of(np.sum(bad, 0)) + bleu_of(np.sum(good, 0))) / 2
    assert mixed.difference == pytest.approx(float(expected))


def test_equal_systems_are_not_decided() -> None:
    statistics = score_translations(damaged(5), REFERENCES).statistics
    same = compare_statistics([statistics], [statistics])
    assert (same.difference, same.p_value) == (0, 1)
    assert not same.decided()


def test_other_sentences_are_refused() -> None:
    statistics = score_translations(damaged(5), REFERENCES).statistics
    with pytest.raises(ValueError, match="expected those of the same sentences"):
        compare_statistics([statistics], [statistics[:-1]])
    with pytest.raises(ValueError, match="samples: expected at least 1"):
        compare_statistics([statistics], [statistics], samples=0)


@pytest.mark.parametrize("wrong", [None, [], [[1] * 9], [[1] * 9 + [-1]], [[1] * 9 + [0.5]], [[1] * 9 + [True]], "1"])
def test_what_is_no_statistics_is_refused(wrong: object) -> None:
    check_statistics([[1] * 10], "test")
    with pytest.raises(ValueError, match="'statistics' of test are not ten whole numbers"):
        check_statistics(wrong, "test")
