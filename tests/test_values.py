"""Configurations as plain data: what goes out comes back, and what does not fit is named."""

import json
from dataclasses import dataclass
from typing import Literal

import pytest

from fastweights.config import TABLES, VALUES
from fastweights.feature_maps import DPFP, Favor, FeatureMap
from fastweights.memory import NORMALISATIONS, Normalisation, SumNormalisation
from fastweights.update_rules import DeltaRule, ProgrammerRule, UpdateRule


@dataclass(frozen=True)
class Example:
    size: int = 20
    rate: float = 1e-3
    feature_map: FeatureMap = DPFP(nu=1)  # noqa: RUF009
    update_rule: UpdateRule = DeltaRule()  # noqa: RUF009
    normalisation: Normalisation = SumNormalisation()  # noqa: RUF009
    limit: int | None = None
    cutoffs: tuple[int, ...] = (3, 5)
    order: Literal["forward", "backward"] = "forward"


def test_every_entry_of_every_table_comes_back() -> None:
    for base, table in TABLES.items():
        for entry in table.values():
            value = entry()
            plain = json.loads(json.dumps(VALUES.to_plain(value)))
            assert VALUES.from_plain(base, plain) == value


def test_fields_survive_beside_the_name() -> None:
    value = Example(feature_map=Favor(num_features=8, kind="relu"), update_rule=ProgrammerRule("relu"), limit=3)
    plain = VALUES.to_plain(value)
    assert plain["feature_map"] == {
        "name": "favor", "num_features": 8, "kind": "relu", "orthogonal": True, "stabilised": False,
    }  # fmt: skip
    assert VALUES.from_plain(Example, json.loads(json.dumps(plain))) == value


def test_override_follows_a_path() -> None:
    value = VALUES.override(Example(), "feature_map", "favor")
    value = VALUES.override(value, "feature_map.num_features", "8")
    value = VALUES.override(value, "rate", "1")
    value = VALUES.override(value, "cutoffs", "[7]")
    assert value == Example(feature_map=Favor(num_features=8), rate=1.0, cutoffs=(7,))
    assert isinstance(value.rate, float)


@pytest.mark.parametrize(
    ("path", "text", "complaint"),
    [
        ("sise", "3", r"unknown field 'sise' \(did you mean 'size'\?\); possible: size, rate"),
        ("feature_map.nuu", "3", r"feature_map: unknown field 'nuu' \(did you mean 'nu'\?\)"),
        ("feature_map.nu", "0", "nu must be an integer of at least 1, got 0"),
        ("feature_map", "dpff", r"unknown name 'dpff' \(did you mean 'dpfp'\?\); possible: identity, tanh"),
        ("normalisation", "sun", ", ".join(NORMALISATIONS)),
        ("size", "1.5", "size: expected int, got 1.5"),
        ("size", "true", "size: expected int, got True"),
        ("size", "NaN", "finite"),
        ("rate", "fast", "rate: expected float, got 'fast'"),
        ("limit", "x", "limit: expected int, got 'x'"),
        ("cutoffs", "[1, null]", r"cutoffs\[1\]: expected int, got None"),
        ("order", "sideways", "order: unknown value 'sideways'; possible: forward, backward"),
        ("size.x", "1", "size.x: 20 has no fields to set"),
        ("update_rule", '{"name": "programmer", "activation": "foo"}', "update_rule.activation: unknown value 'foo'"),
        ("feature_map", "[1]", "feature_map: expected a mapping of fields"),
    ],
)
def test_what_does_not_fit_is_named(path: str, text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        VALUES.override(Example(), path, text)
