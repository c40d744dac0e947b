"""Models by corpus or size, and numbers of several seeds in words."""

from fastweights.experiments.model_scores import ModelScores, over_seeds


def test_only_corpora_with_all_models_are_compared() -> None:
    found = ModelScores({"small": {"a": 1, "b": 2}, "large": {"a": 3}})
    assert found.get("small", "b") == 2
    assert found.get("large", "b") is None
    assert found.get("medium", "a") is None
    assert list(found.with_all("b", "a")) == [("small", (2, 1))]
    assert list(found.with_all("a")) == [("small", (1,)), ("large", (3,))]


def test_means_and_spread() -> None:
    assert over_seeds([]) == "–"
    assert over_seeds([27.66]) == "27.7"
    assert over_seeds([1.0, 2.0, 3.0]) == "2.0 ± 1.0"
    assert over_seeds([1.0, 3.0], lambda mean: f"about {mean:g}") == "about 2 ± about 1.41421"
    assert over_seeds([1.25, 1.35], "{:.3f}".format) == "1.300 ± 0.071"
