"""Words in clusters: the likeliest of all, and what is not finite."""

import math

import pytest
import torch

from fastweights.layers.word_scores import WordScores


def test_the_likeliest_word_of_all_is_found_in_its_cluster() -> None:
    generator = torch.Generator().manual_seed(0)
    for _ in range(200):
        p = torch.rand(13, generator=generator, dtype=torch.float64) ** 4
        p[torch.randint(13, (2,), generator=generator)] = p.max()
        tails = p[3:8], p[8:]
        head = torch.cat([p[:3], torch.stack([tail.sum() for tail in tails])]).log()
        scores = WordScores(head, (3, 8, 13), lambda number, tails=tails: (tails[number] / tails[number].sum()).log())
        assert p[scores.likeliest()] == pytest.approx(float(p.max()), rel=1e-12)


def test_what_is_not_finite_in_a_cluster_is_refused() -> None:
    scores = WordScores(torch.tensor([-50.0, 0.0]), (1, 3), lambda number: torch.tensor([math.nan, 0.0]))
    with pytest.raises(FloatingPointError, match="the model's probabilities are not finite"):
        scores.words_of(0)


def test_known_words_are_in_their_order() -> None:
    scores = WordScores(torch.tensor([0.1, 0.2, 0.4, 0.3]).log(), (2, 4, 5), lambda number: torch.zeros(2 - number))
    assert scores.unknown == [0, 1]
    scores.words_of(1)
    assert scores.known()[1].tolist() == [0, 1, 4]
    assert scores.evaluate(above=math.log(0.35))
    assert scores.known()[1].tolist() == [0, 1, 2, 3, 4]
    assert not scores.evaluate(above=-math.inf)


def test_the_likeliest_words_have_their_scores_and_no_other_cluster_is_evaluated() -> None:
    asked = []

    def within(number: int) -> torch.Tensor:
        asked.append(number)
        return torch.tensor([0.75, 0.25] if number == 0 else [0.5, 0.5]).log()

    head = torch.tensor([0.3, 0.2, 0.4, 0.1]).log()
    found = WordScores(head, (2, 4, 6), within).of_likeliest(1)
    assert found[:4].exp().tolist() == pytest.approx([0.3, 0.2, 0.3, 0.1])
    assert found[4:].tolist() == [-math.inf, -math.inf]
    assert asked == [0]
    # The fourth is 0.1, and so is the other cluster: it may hold a word as likely.
    assert WordScores(head, (2, 4, 6), within).of_likeliest(4).exp().tolist() == pytest.approx(
        [0.3, 0.2, 0.3, 0.1, 0.05, 0.05]
    )
    assert asked == [0, 0, 1]
