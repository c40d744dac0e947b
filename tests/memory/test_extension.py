"""A rule or a map that is added to its table is found by the tests of agreement, with no other edit."""

import sys
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from inspect import getsource
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from test_agreement import assert_agrees
from torch import Tensor
from typing_extensions import override

from combinations import combinations
from fastweights import FEATURE_MAPS, UPDATE_RULES, FeatureMap
from pairwise import every_pair
from random_problems import Case

pytestmark = pytest.mark.usefixtures("one_thread")

EXAMPLE = Path(__file__).parents[2] / "examples" / "add_a_rule.py"


@pytest.fixture
def example(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    spec = spec_from_file_location("add_a_rule", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "add_a_rule", module)
    spec.loader.exec_module(module)
    return vars(module)


@dataclass(frozen=True)
class Square(FeatureMap):
    """φ(x) = x²."""

    equations: ClassVar[str] = "-"

    @override
    def feature_dim(self, key_dim: int) -> int:
        return key_dim

    @override
    def __call__(self, x: Tensor) -> Tensor:
        return x * x


def case(dtype: torch.dtype, seed: int = 0) -> Case:
    return Case(2, 1, 17, 4, 5, dtype, "transposed", starts_empty=False, seed=seed)


def test_the_rule_of_the_example_is_short(example: dict[str, Any]) -> None:
    assert len(getsource(example["FadingRule"]).splitlines()) < 30


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
def test_a_rule_in_the_table_is_held_against_its_definition(
    example: dict[str, Any], monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    rule = example["FadingRule"]
    monkeypatch.setitem(UPDATE_RULES, "fading", rule)
    found = [combination for combination in combinations() if combination.rule == rule()]
    assert {type(combination.feature_map) for combination in found} == set(FEATURE_MAPS.values())
    for combination in every_pair(found, lambda combination: combination.options):
        assert_agrees(combination, case(dtype))


def test_a_wrong_rule_in_the_table_is_noticed(example: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    class Wrong(example["FadingRule"]):  # type: ignore[misc]
        def coefficients(self, keys: Tensor, gates: Any, overlaps: Tensor | None = None) -> Any:
            return super().coefficients(keys, gates, overlaps)._replace(decay=None)

    monkeypatch.setitem(UPDATE_RULES, "wrong", Wrong)
    found = [combination for combination in combinations() if type(combination.rule) is Wrong]
    assert found
    with pytest.raises(AssertionError):
        assert_agrees(found[0], case(torch.float64))


def test_a_map_in_the_table_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FEATURE_MAPS, "square", Square)
    found = [combination for combination in combinations() if combination.feature_map == Square()]
    assert {type(combination.rule) for combination in found} == set(UPDATE_RULES.values())
    for combination in every_pair(found, lambda combination: combination.options):
        assert_agrees(combination, case(torch.float64))
