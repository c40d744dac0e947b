"""Perplexities of ours and of the paper in one form."""

import math

import pytest

from fastweights.experiments.language_models.perplexities import (
    PAPER,
    Perplexities,
    Perplexity,
    is_lower,
    of_seeds,
    perplexities,
    shown,
)
from fastweights.experiments.language_models.presets import PRESETS, for_text
from fastweights.runs.record import Record


@pytest.mark.parametrize(
    ("perplexity", "at_least", "words"),
    [(34.14, False, "34.1"), (999.9, False, "999.9"), (1600, True, "> 1600"), (math.inf, False, "infinite")],
)
def test_digits_are_those_that_the_paper_gives(perplexity: float, at_least: bool, words: str) -> None:
    assert shown(perplexity, at_least) == words


def test_a_loss_that_was_not_finite_is_infinitely_perplexing() -> None:
    assert Perplexity.of_losses(math.log(20), None).cells() == ("20.0", "infinite")


def test_sizes_are_those_at_which_all_models_are_known() -> None:
    found = PAPER.with_all("linear-delta", "linear-delta-nopos")
    assert [(size, [model.test for model in models]) for size, models in found] == [("medium", [31.5, 31.1])]


def test_only_measured_models_of_the_tables_have_one() -> None:
    run = for_text(PRESETS["cpu-transformer"], 33_278, "text")
    trained = {"best_loss": 1.0, "last_loss": 1.0, "steps": 1}
    score = {"loss": math.log(200), "tokens": 9, "context": ""}
    assert perplexities({run: Record({}, trained, {}, {})}) == Perplexities()
    measured = Record({}, {**trained, "valid": score, "test": score}, {}, {})
    found = perplexities({run: measured}).get("cpu", "transformer")
    assert found is not None
    assert found.cells() == ("200.0", "200.0")


def seeds(*tests: float) -> Perplexity:
    return of_seeds({seed: Perplexity(test, test) for seed, test in enumerate(tests)})


@pytest.mark.parametrize(
    ("first", "second", "lower"),
    [
        (seeds(100.0), seeds(101.0), True),
        (seeds(101.0), seeds(100.0), False),
        (seeds(100.0), seeds(100.9), None),
        (seeds(100.0, 90.0), seeds(100.9, 90.5), None),
        (seeds(100.0, 90.0, 110.0), seeds(100.1, 90.1, 110.1), True),
        (seeds(100.0, 90.0, 110.0), seeds(100.1, 89.9, 110.1), None),
        (seeds(100.0), seeds(100.5, 200.0, 300.0), None),  # what only one of them has does not count
        # Without a seed in common the means have to differ by enough.
        (of_seeds({7: Perplexity(100.0, 100.0)}), seeds(100.5), None),
        (of_seeds({7: Perplexity(100.0, 100.0)}), seeds(105.0), True),
        (seeds(math.inf), seeds(100.0), False),
        (Perplexity(31.1, 31.1), Perplexity(31.2, 31.2), True),
    ],
)
def test_a_difference_counts_if_it_is_large_or_all_seeds_agree(
    first: Perplexity, second: Perplexity, lower: bool | None
) -> None:
    assert is_lower(first, second, "test") is lower
