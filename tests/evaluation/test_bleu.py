"""BLEU, chrF and the paired bootstrap: worked examples, the signature, and text that cannot be scored."""

import math
from pathlib import Path

import pytest

from fastweights.evaluation.bleu import read_lines, score_translations, write_lines
from fastweights.evaluation.bootstrap import Comparison, compare_statistics

REFERENCE = "the cat sat on the mat"


def test_a_perfect_translation_has_the_full_score() -> None:
    score = score_translations([REFERENCE, "Ein Hund läuft ."], [REFERENCE, "Ein Hund läuft."])
    assert score.bleu == pytest.approx(100)
    assert score.chrf == pytest.approx(100)
    assert score.brevity_penalty == 1
    assert score.sentences == 2


def test_worked_example() -> None:
    """5 of 6 words, 4 of 5 bigrams, 3 of 4 trigrams and 2 of 3 four-grams are right; nothing is too short."""
    score = score_translations(["the cat sat on the rug"], [REFERENCE])
    assert score.precisions == pytest.approx([100 * 5 / 6, 100 * 4 / 5, 100 * 3 / 4, 100 * 2 / 3])
    assert score.bleu == pytest.approx(100 * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** 0.25)


def test_a_short_translation_is_punished() -> None:
    """Five words for six: exp(1 - 6/5)."""
    score = score_translations(["the cat sat on the"], [REFERENCE])
    assert score.brevity_penalty == pytest.approx(math.exp(-0.2))
    assert score.bleu == pytest.approx(100 * math.exp(-0.2))
    assert score.length_ratio == pytest.approx(5 / 6)


def test_case_counts_and_the_signature_says_so() -> None:
    score = score_translations(["The cat sat on the mat"], [REFERENCE])
    assert score.bleu < 90
    assert score.signature.startswith("nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:")
    assert score.chrf_signature.startswith("nrefs:1|case:mixed|")


def test_an_empty_translation_is_scored() -> None:
    assert score_translations([""], [REFERENCE]).bleu == 0


def sentences(count: int, wrong: int) -> list[str]:
    """Sentences of which some have a wrong last word."""
    return [f"w{n} a{n} b{n} c{n} d{n} {'wrong' if n < wrong else f'e{n}'}" for n in range(count)]


def compare_translations(baseline: list[str], system: list[str], references: list[str]) -> Comparison:
    """The paired bootstrap of two systems' translations of the same sentences."""
    first, second = (score_translations(lines, references).statistics for lines in (baseline, system))
    return compare_statistics([first], [second])


def test_a_clear_difference_is_decided_and_none_is_not() -> None:
    references = sentences(60, 0)
    better = compare_translations(sentences(60, 40), sentences(60, 2), references)
    assert better.difference > 10
    assert better.p_value == pytest.approx(1 / 1001)
    assert better.decided()
    assert better.samples == 1000
    worse = compare_translations(sentences(60, 2), sentences(60, 40), references)
    assert worse.difference == pytest.approx(-better.difference)
    same = compare_translations(sentences(60, 5), sentences(60, 5)[::-1][::-1], references)
    assert same.difference == 0
    assert not same.decided()


@pytest.mark.parametrize(("hypotheses", "references"), [(["a"], ["a", "b"]), ([], []), (["a", "b"], ["a"])])
def test_texts_that_do_not_go_together_are_refused(hypotheses: list[str], references: list[str]) -> None:
    with pytest.raises(ValueError, match="hypotheses: expected one for each"):
        score_translations(hypotheses, references)


def test_an_empty_reference_is_refused() -> None:
    with pytest.raises(ValueError, match="references: line 2 is empty"):
        score_translations(["a", "b"], ["a", " "])


def test_kept_translations_are_read_back(tmp_path: Path) -> None:
    lines = ["Ein Hund läuft.", "", "a\u2028b\x85"]
    write_lines(tmp_path / "hypotheses.de", lines)
    assert read_lines(tmp_path / "hypotheses.de") == lines
    for content, expected in ((b"a\r\nb", ["a", "b"]), (b"a\n\n", ["a", ""]), (b"a", ["a"]), (b"\n", [""]), (b"", [])):
        (tmp_path / "cut").write_bytes(content)
        assert read_lines(tmp_path / "cut") == expected
    with pytest.raises(ValueError, match="translation 2 has a line feed inside"):
        write_lines(tmp_path / "x", ["a", "b\nc"])
    (tmp_path / "latin").write_bytes(b"\xe4\n")
    with pytest.raises(ValueError, match="not UTF-8 text"):
        read_lines(tmp_path / "latin")
