"""Values (frozen dataclasses) as plain JSON data and back, and changed by a path: what configurations are made of.

A value of one of the tables (a feature map, an update rule, …) is written as its name, or as a mapping with its name
under `name` and its fields beside it: `{"name": "dpfp", "nu": 2}`.
"""

import difflib
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Literal, TypeVar

from fastweights.feature_maps import FEATURE_MAPS, FeatureMap
from fastweights.memory import NORMALISATIONS, Normalisation
from fastweights.update_rules import DECAYS, UPDATE_RULES, Decay, UpdateRule

Value = TypeVar("Value")

TABLES: Mapping[type, Mapping[str, type]] = {
    FeatureMap: FEATURE_MAPS,
    UpdateRule: UPDATE_RULES,
    Decay: DECAYS,
    Normalisation: NORMALISATIONS,
}


@dataclass(frozen=True)
class Codec:
    """Knows, for each base class whose values have names, the table of those names."""

    tables: Mapping[type, Mapping[str, type]]

    def to_plain(self, value: Any) -> Any:
        """Plain data (dict, list, str, int, float, bool, None) that `from_plain` reads back."""
        if is_dataclass(value) and not isinstance(value, type):
            plain = {field.name: self.to_plain(getattr(value, field.name)) for field in fields(value)}
            name = self._name(type(value))
            return plain if name is None else {"name": name, **plain}
        if isinstance(value, tuple | list):
            return [self.to_plain(item) for item in value]
        return value

    def from_plain(self, wanted: type[Value], plain: Any, where: str = "") -> Value:
        """The value of type `wanted` that `plain` describes; a ValueError names what does not fit and what would."""
        return typing.cast("Value", self._decode(wanted, plain, where))

    def override(self, value: Value, path: str, text: str) -> Value:
        """The value with one field, given by a dotted path, replaced by what `text` says (JSON, or a bare word)."""
        return typing.cast("Value", self._override(value, path.split("."), _parse(text), ""))

    def _name(self, cls: type) -> str | None:
        for table in self.tables.values():
            for name, entry in table.items():
                if entry is cls:
                    return name
        return None

    def _override(self, value: Any, path: list[str], plain: Any, where: str) -> Any:
        here = f"{where}.{path[0]}".lstrip(".")
        hints = _hints(value, here)
        if path[0] not in hints:
            raise ValueError(f"{where or 'set'}: {_unknown('field', path[0], hints)}")
        current = getattr(value, path[0])
        if len(path) > 1:
            changed = self._override(current, path[1:], plain, here)
        else:
            changed = self._decode(hints[path[0]], plain, here)
        return _construct(lambda: replace(value, **{path[0]: changed}), here)

    def _decode(self, wanted: Any, plain: Any, where: str) -> Any:
        origin = typing.get_origin(wanted)
        if origin in (typing.Union, types.UnionType):
            return self._decode_union(typing.get_args(wanted), plain, where)
        if origin is Literal:
            if not any(plain == choice and type(plain) is type(choice) for choice in typing.get_args(wanted)):
                raise ValueError(f"{where}: {_unknown('value', plain, typing.get_args(wanted))}")
            return plain
        if origin is tuple:
            if not isinstance(plain, list | tuple):
                raise ValueError(f"{where}: expected a list, got {plain!r}")
            item = typing.get_args(wanted)[0]
            return tuple(self._decode(item, entry, f"{where}[{i}]") for i, entry in enumerate(plain))
        if wanted in self.tables or is_dataclass(wanted):
            return self._decode_value(wanted, plain, where)
        if wanted is float and isinstance(plain, int) and not isinstance(plain, bool):
            return float(plain)
        if type(plain) is not (type(None) if wanted is None else wanted):
            raise ValueError(f"{where}: expected {getattr(wanted, '__name__', wanted)}, got {plain!r}")
        return plain

    def _decode_union(self, choices: tuple[Any, ...], plain: Any, where: str) -> Any:
        errors = []
        for choice in choices:
            try:
                return self._decode(choice, plain, where)
            except ValueError as error:
                errors.append(error)
        # The most specific complaint is that of a value with fields, if there is one.
        raise next((e for e, c in zip(errors, choices, strict=True) if is_dataclass(c) or c in self.tables), errors[0])

    def _decode_value(self, wanted: type, plain: Any, where: str) -> Any:
        if isinstance(plain, str) and wanted in self.tables:
            plain = {"name": plain}
        if not isinstance(plain, Mapping):
            raise ValueError(f"{where or wanted.__name__}: expected a mapping of fields, got {plain!r}")
        given = dict(plain)
        if wanted in self.tables:
            table, name = self.tables[wanted], given.pop("name", None)
            if name not in table:
                raise ValueError(f"{where}: {_unknown('name', name, table)}")
            wanted = table[name]
        hints = typing.get_type_hints(wanted)
        known = {field.name: hints[field.name] for field in fields(wanted)}
        for name in given:
            if name not in known:
                raise ValueError(f"{where or wanted.__name__}: {_unknown('field', name, known)}")
        decoded = {
            name: self._decode(known[name], entry, f"{where}.{name}".lstrip(".")) for name, entry in given.items()
        }
        return _construct(lambda: wanted(**decoded), where or wanted.__name__)


VALUES = Codec(TABLES)


def _parse(text: str) -> Any:
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (json.JSONDecodeError, RecursionError):
        return text


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"expected a finite number, got {text}")


def _hints(value: Any, where: str) -> dict[str, Any]:
    if not is_dataclass(value) or isinstance(value, type):
        raise ValueError(f"{where}: {value!r} has no fields to set")
    hints = typing.get_type_hints(type(value))
    return {field.name: hints[field.name] for field in fields(value)}


def _construct(make: Callable[[], Any], where: str) -> Any:
    try:
        return make()
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from error


def _unknown(what: str, got: object, possible: Iterable[object]) -> str:
    names = [str(name) for name in possible]
    close = difflib.get_close_matches(str(got), names, n=1)
    hint = f" (did you mean {close[0]!r}?)" if close else ""
    return f"unknown {what} {got!r}{hint}; possible: {', '.join(names)}"
