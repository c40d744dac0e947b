"""The demo's claim: after an overwrite the sum rule retrieves old and new together, the delta rule only the new."""

from pathlib import Path

import pytest
import torch
from torch.testing import assert_close

from fastweights.experiments.demo import memory
from fastweights.experiments.demo.memory import CHANGED, PICTURES, REPLACEMENT, SHOWN_RULES, WRITTEN, picture

CHANGED_AT = list(WRITTEN).index(CHANGED)


@pytest.fixture(params=range(5))
def keys(request: pytest.FixtureRequest) -> torch.Tensor:
    return memory.make_keys(seed=request.param)


def test_the_sum_rule_adds_the_new_value_to_what_the_key_retrieved(keys: torch.Tensor) -> None:
    before, after = memory.recall(SHOWN_RULES["sum rule"], keys).reads
    assert_close(after[0, 0, CHANGED_AT], before[0, 0, CHANGED_AT] + picture(REPLACEMENT))
    assert set(memory.describe(after[0, 0, CHANGED_AT]).split(" + ")) >= {WRITTEN[CHANGED], REPLACEMENT}


def test_the_delta_rule_replaces_the_old_value(keys: torch.Tensor) -> None:
    _, after = memory.recall(SHOWN_RULES["delta rule"], keys).reads
    assert_close(after[0, 0, CHANGED_AT], picture(REPLACEMENT), rtol=0, atol=1e-6)
    assert memory.describe(after[0, 0, CHANGED_AT]) == REPLACEMENT


@pytest.mark.parametrize("rule", SHOWN_RULES)
def test_the_overwrite_changes_the_memory_only_along_its_key(rule: str, keys: torch.Tensor) -> None:
    before, after = memory.recall(SHOWN_RULES[rule], keys).weights
    key = keys[0, 0, CHANGED_AT]
    change = (after - before)[0, 0]
    assert_close(change, torch.outer(change @ key, key), rtol=0, atol=1e-6)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_told_from_all_others(name: str) -> None:
    assert memory.describe(picture(name)) == name


def test_a_mixture_is_told_by_its_parts() -> None:
    assert memory.describe(picture("sun") + 0.5 * picture("fish") + 0.1 * picture("moon")) == "sun + fish"
    assert memory.describe(torch.zeros(49)) == "nothing"


def test_the_error_is_relative_to_what_is_stored() -> None:
    assert memory.relative_error(1.25 * picture("moon"), picture("moon")) == pytest.approx(0.25)


def test_the_figure_draws_what_was_retrieved(keys: torch.Tensor) -> None:
    recalls = {name: memory.recall(rule, keys) for name, rule in SHOWN_RULES.items()}
    figure = memory.draw(recalls)
    columns = len(WRITTEN) + 1
    for row, (name, moment) in enumerate([(name, moment) for name in SHOWN_RULES for moment in (0, 1)], start=1):
        drawn = figure.axes[row * columns + CHANGED_AT].images[0].get_array()
        expected = recalls[name].reads[moment][0, 0, CHANGED_AT].reshape(7, 7)
        assert_close(torch.tensor(drawn), expected)


def test_the_same_run_gives_the_same_figure(tmp_path: Path) -> None:
    for folder in ("a", "b"):
        memory.run(tmp_path / folder)
    assert (tmp_path / "a" / "memory.png").read_bytes() == (tmp_path / "b" / "memory.png").read_bytes()
