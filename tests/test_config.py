"""Configurations as plain data: what goes out comes back, what does not fit is named, and equal ones share a digest."""

import json
from dataclasses import dataclass, field, make_dataclass, replace
from types import SimpleNamespace
from typing import Any, Literal

import pytest

from fastweights.config import PLAIN, ConfigCodec, closest, require_at_least, unknown
from fastweights.feature_maps import DPFP, Favor, FeatureMap
from fastweights.memory import NORMALISATIONS, AttentionNormalisation, Normalisation, SumNormalisation
from fastweights.models.attention import REGISTRIES
from fastweights.update_rules import DeltaRule, ProgrammerRule, UpdateRule

VALUES = ConfigCodec(REGISTRIES)


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


def test_every_entry_of_every_registry_comes_back() -> None:
    for base, registry in REGISTRIES.items():
        for entry in registry.values():
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
        (
            "feature_map.name",
            "elu",
            r"feature_map: its kind is set as a whole, such as feature_map=.*; possible: .*elu",
        ),
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
        ("feature_map", '{"name": ["dpfp"]}', r"feature_map: unknown name \['dpfp'\]"),
    ],
)
def test_what_does_not_fit_is_named(path: str, text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        VALUES.override(Example(), path, text)


@dataclass(frozen=True)
class Attention:
    """A value with an optional part, as attentions have it."""

    normalisation: AttentionNormalisation | None = None
    flag: bool | None = None


def test_an_optional_value_is_switched_on_and_off() -> None:
    on = VALUES.override(Attention(), "normalisation", "true")
    assert on == Attention(AttentionNormalisation())
    assert VALUES.override(on, "normalisation", "false") == Attention()
    assert VALUES.override(on, "normalisation", "null") == Attention()
    # Where a boolean is meant, it is one.
    assert VALUES.override(Attention(), "flag", "false") == Attention(flag=False)
    # A number cannot be switched on: it has no defaults.
    with pytest.raises(ValueError, match="limit: expected int"):
        VALUES.override(Example(), "limit", "true")


def test_changes_follow_each_other() -> None:
    changed = VALUES.changed(Example(), ["feature_map=favor", "feature_map.num_features=8", "limit=3", "limit=null"])
    assert changed == Example(feature_map=Favor(num_features=8))
    assert VALUES.changed(Example(), []) == Example()
    # Only the first equals sign ends the path.
    with pytest.raises(ValueError, match="order: unknown value 'a=b'"):
        VALUES.changed(Example(), ["order=a=b"])


@pytest.mark.parametrize("change", ["size", "size:3", ""])
def test_a_change_without_a_value_is_refused(change: str) -> None:
    with pytest.raises(ValueError, match=f"--set: expected FIELD=VALUE, got {change!r}"):
        VALUES.changed(Example(), [change])


@dataclass(frozen=True)
class Protocol:
    sequences: int = 20
    short: bool = False


@dataclass(frozen=True)
class Evaluated:
    protocol: Protocol = Protocol()
    other: Protocol | None = None


PROTOCOLS = ConfigCodec(constants={Protocol: {"text": Protocol(), "published": Protocol(200, short=True)}})


def test_a_whole_value_may_be_given_by_its_name() -> None:
    published = PROTOCOLS.override(Evaluated(), "protocol", "published")
    assert published == Evaluated(Protocol(200, short=True))
    assert PROTOCOLS.from_plain(Evaluated, {"protocol": "text", "other": "published"}) == Evaluated(
        other=Protocol(200, short=True)
    )
    # Its fields are what is written, so that another meaning of the name does not change what was recorded.
    assert PROTOCOLS.to_plain(published)["protocol"] == {"sequences": 200, "short": True}
    assert PROTOCOLS.override(published, "protocol.sequences", "7").protocol == Protocol(7, short=True)
    with pytest.raises(ValueError, match=r"protocol: unknown name 'publisht' \(did you mean 'published'\?\)"):
        PROTOCOLS.override(Evaluated(), "protocol", "publisht")
    with pytest.raises(ValueError, match="protocol: expected a mapping of fields"):
        PLAIN.override(Evaluated(), "protocol", "text")


def test_a_digest_counts_only_what_differs_from_the_defaults() -> None:
    assert VALUES.digest(Example()) == VALUES.digest(Example(size=20, cutoffs=(3, 5)))
    others = [
        Example(size=21),
        Example(rate=2e-3),
        Example(feature_map=DPFP(nu=2)),
        Example(feature_map=Favor()),
        Example(feature_map=Favor(num_features=8)),
        Example(limit=20),
        Example(cutoffs=()),
        Example(order="backward"),
        Example(normalisation=next(entry() for name, entry in NORMALISATIONS.items() if name != "sum")),
    ]
    digests = {VALUES.digest(value) for value in (Example(), *others)}
    assert len(digests) == 1 + len(others)
    assert all(len(digest) == 12 and int(digest, 16) >= 0 for digest in digests)


def grown(extra: Any = None, *, inner_extra: Any = None) -> tuple[Any, ...]:
    """A configuration and one inside it, each as it is or with one more field that has a default."""
    inner_fields = [("nu", int, 1)] + ([("added", inner_extra, field(default=7))] if inner_extra else [])
    inner = make_dataclass("Inner", inner_fields, frozen=True)
    fields: list[Any] = [("steps", int), ("inner", inner, field(default_factory=inner))]
    outer = make_dataclass("Outer", fields + ([("added", extra, field(default=0.5))] if extra else []), frozen=True)
    return outer, inner


def test_a_field_that_is_added_with_a_default_leaves_every_digest() -> None:
    before, inner_before = grown()
    for after, inner_after in (grown(float), grown(inner_extra=int), grown(float, inner_extra=int)):
        for steps, nu in ((3, 1), (3, 2), (4, 2)):
            old = before(steps, inner_before(nu))
            new = after(steps, inner_after(nu))
            assert PLAIN.digest(new) == PLAIN.digest(old)
    changed = replace(after(3), added=0.25)
    assert PLAIN.digest(changed) != PLAIN.digest(before(3))
    assert PLAIN.digest(after(3, inner_after(1, 8))) != PLAIN.digest(before(3))
    # What was written before the field was there is still read.
    assert PLAIN.from_plain(after, PLAIN.to_plain(before(3))) == after(3)


def test_a_field_that_does_not_tell_values_apart_does_not_count() -> None:
    named = make_dataclass("Named", [("size", int), ("name", str, field(default="", compare=False))], frozen=True)
    assert PLAIN.digest(named(1, "a")) == PLAIN.digest(named(1, "b")) == PLAIN.digest(named(1))
    assert PLAIN.digest(named(1)) != PLAIN.digest(named(2))


def test_a_value_that_is_no_json_has_no_digest() -> None:
    with pytest.raises(ValueError, match="JSON"):
        VALUES.digest(Example(rate=float("nan")))


def test_fields_that_are_too_small_are_named() -> None:
    training = SimpleNamespace(steps=0, batch_size=3, log_every=None)
    require_at_least(0, training, "steps", "batch_size", "log_every")
    with pytest.raises(ValueError, match=r"^steps: expected at least 1, got 0$"):
        require_at_least(1, training, "batch_size", "log_every", "steps")


def test_what_was_probably_meant() -> None:
    assert closest("lineer", ["linear", "delta"]) == "linear"
    assert closest("zzz", ["linear", "delta"]) is None
    assert unknown("rule", "zzz", ["linear", "delta"]) == "unknown rule 'zzz'; possible: linear, delta"
