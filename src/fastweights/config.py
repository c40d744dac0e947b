"""Configurations (frozen dataclasses) as plain JSON data and back, changed by a path, and told apart by a digest.

A value of one of the registries (a feature map, an update rule, …) is written as its name, or as a mapping with its
name under `name` and its fields beside it: `{"name": "dpfp", "nu": 2}`.
"""

import difflib
import hashlib
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import Any, Literal, TypeVar

Value = TypeVar("Value")
Registries = Mapping[type, Mapping[str, type]]
"""For each base class whose values have names, the table of those names."""


@dataclass(frozen=True)
class ConfigCodec:
    """Converts between values and plain data, with the registries that give values their names."""

    registries: Registries = field(default_factory=dict)
    constants: Mapping[type, Mapping[str, Any]] = field(default_factory=dict)
    """Whole values that may be given by a name: for a class, the values by name."""

    def to_plain(self, value: Any) -> Any:
        """Plain data (dict, list, str, int, float, bool, None) that `from_plain` reads back."""
        return self._plain(value, lambda field, found: True)

    def digest(self, value: Any) -> str:
        """12 hexadecimal digits of SHA-256 over what differs from the defaults.

        A field that is added with a default leaves every digest as it was.
        """
        plain = self._plain(value, lambda field, found: field.compare and found != _default(field))
        canonical = json.dumps(plain, sort_keys=True, separators=(",", ":"), allow_nan=False)
        return hashlib.sha256(canonical.encode()).hexdigest()[:12]

    def from_plain(self, wanted: type[Value], plain: Any, where: str = "") -> Value:
        """The value of type `wanted` that `plain` describes; a ValueError names what does not fit and what would."""
        return typing.cast("Value", self._decode(wanted, plain, where))

    def override(self, value: Value, path: str, text: str) -> Value:
        """The value with one field, given by a dotted path, replaced by what `text` says (JSON, or a bare word)."""
        return typing.cast("Value", self._override(value, path.split("."), _parse(text), ""))

    def changed(self, value: Value, changes: Iterable[str]) -> Value:
        """The value after changes such as `training.steps=200`: what `--set` does."""
        for change in changes:
            path, equals, text = change.partition("=")
            if not equals:
                raise ValueError(f"--set: expected FIELD=VALUE, got {change!r}")
            value = self.override(value, path, text)
        return value

    def _plain(self, value: Any, wanted: "Callable[[Field[Any], Any], bool]") -> Any:
        """Plain data with the name of the value and those of its fields that are wanted."""
        if is_dataclass(value) and not isinstance(value, type):
            name = self._name(type(value))
            found = {field: getattr(value, field.name) for field in fields(value)}
            given = {field.name: self._plain(x, wanted) for field, x in found.items() if wanted(field, x)}
            return given if name is None else {"name": name, **given}
        if isinstance(value, tuple | list):
            return [self._plain(item, wanted) for item in value]
        return value

    def _name(self, cls: type) -> str | None:
        return next((name for table in self.registries.values() for name, kind in table.items() if kind is cls), None)

    def _override(self, value: Any, path: list[str], plain: Any, where: str) -> Any:
        here = f"{where}.{path[0]}".lstrip(".")
        hints = _hints(value, here)
        if path[0] not in hints:
            raise ValueError(f"{where or 'set'}: {self._no_field(value, path[0], hints, where)}")
        current = getattr(value, path[0])
        if len(path) > 1:
            changed = self._override(current, path[1:], plain, here)
        else:
            changed = self._decode(hints[path[0]], plain, here)
        return _construct(lambda: replace(value, **{path[0]: changed}), here)

    def _no_field(self, value: Any, name: str, hints: dict[str, Any], where: str) -> str:
        """The error for a field that a value lacks; `name`, which files show, is changed by setting the whole value."""
        table = next((registry for registry in self.registries.values() if type(value) in registry.values()), None)
        if name == "name" and table is not None:
            return f"its kind is set as a whole, such as {where}={next(iter(table))}; possible: {', '.join(table)}"
        if not hints:
            return f"unknown field {name!r}; {type(value).__name__} has no fields"
        return unknown("field", name, hints)

    def _decode(self, wanted: Any, plain: Any, where: str) -> Any:
        origin = typing.get_origin(wanted)
        if origin in (typing.Union, types.UnionType):
            return self._decode_union(typing.get_args(wanted), plain, where)
        if origin is Literal:
            if not any(plain == choice and type(plain) is type(choice) for choice in typing.get_args(wanted)):
                raise ValueError(f"{where}: {unknown('value', plain, typing.get_args(wanted))}")
            return plain
        if origin in (tuple, list):
            if not isinstance(plain, list | tuple):
                raise ValueError(f"{where}: expected a list, got {plain!r}")
            item = typing.get_args(wanted)[0]
            return origin(self._decode(item, entry, f"{where}[{i}]") for i, entry in enumerate(plain))
        if wanted in self.registries or is_dataclass(wanted):
            return self._decode_value(wanted, plain, where)
        if wanted is float and isinstance(plain, int) and not isinstance(plain, bool):
            return float(plain)
        if type(plain) is not (type(None) if wanted is None else wanted):
            raise ValueError(f"{where}: expected {getattr(wanted, '__name__', wanted)}, got {plain!r}")
        return plain

    def _decode_union(self, choices: tuple[Any, ...], plain: Any, where: str) -> Any:
        if isinstance(plain, bool) and type(None) in choices and bool not in choices:
            # An optional value can be switched on with its defaults, and off.
            return self._decode_union(choices, {} if plain else None, where)
        errors = []
        for choice in choices:
            try:
                return self._decode(choice, plain, where)
            except ValueError as error:
                errors.append(error)
        # The most specific complaint is that of a value with fields, if there is one.
        raise next(
            (e for e, c in zip(errors, choices, strict=True) if is_dataclass(c) or c in self.registries), errors[0]
        )

    def _decode_value(self, wanted: type, plain: Any, where: str) -> Any:
        if isinstance(plain, str) and wanted in self.constants:
            constants = self.constants[wanted]
            if plain not in constants:
                raise ValueError(f"{where}: {unknown('name', plain, constants)}")
            return constants[plain]
        if isinstance(plain, str) and wanted in self.registries:
            plain = {"name": plain}
        if not isinstance(plain, Mapping):
            raise ValueError(f"{where or wanted.__name__}: expected a mapping of fields, got {plain!r}")
        given = dict(plain)
        if wanted in self.registries:
            table, name = self.registries[wanted], given.pop("name", None)
            if not isinstance(name, str) or name not in table:
                raise ValueError(f"{where}: {unknown('name', name, table)}")
            wanted = table[name]
        known = _types_of_fields(wanted)
        for name in given:
            if name not in known:
                raise ValueError(f"{where or wanted.__name__}: {unknown('field', name, known)}")
        decoded = {
            name: self._decode(known[name], entry, f"{where}.{name}".lstrip(".")) for name, entry in given.items()
        }
        if absent := [field.name for field in fields(wanted) if field.name not in given and _is_required(field)]:
            raise ValueError(f"{where or wanted.__name__}: missing {', '.join(absent)}")
        return _construct(lambda: wanted(**decoded), where or wanted.__name__)


PLAIN = ConfigCodec()
"""Reads and writes values of which nothing has a name."""


def _is_required(field: "Field[Any]") -> bool:
    return field.init and field.default is MISSING and field.default_factory is MISSING


def _default(field: "Field[Any]") -> Any:
    return field.default if field.default_factory is MISSING else field.default_factory()


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
    return _types_of_fields(type(value))


def _types_of_fields(cls: type) -> dict[str, Any]:
    """The types of a dataclass's fields by name."""
    return _resolved(cls, *cls.__annotations__.items())


@cache
def _resolved(cls: type, *_annotations: tuple[str, Any]) -> dict[str, Any]:
    """The same, kept as long as the annotations stay: resolving them takes longer than reading a record."""
    hints = typing.get_type_hints(cls)
    return {field.name: hints[field.name] for field in fields(cls)}


def _construct(make: Callable[[], Any], where: str) -> Any:
    try:
        return make()
    except TypeError as error:
        raise ValueError(f"{where}: {error}") from error


def require_at_least(least: int, value: object, *names: str) -> None:
    """Raise a ValueError if one of these fields of a configuration is less; a field that is None is not asked."""
    for name in names:
        number = getattr(value, name)
        if number is not None and number < least:
            raise ValueError(f"{name}: expected at least {least}, got {number}")


def require_at_most(most: int, value: object, *names: str) -> None:
    """Raise a ValueError if one of these fields of a configuration is more."""
    for name in names:
        if (number := getattr(value, name)) > most:
            raise ValueError(f"{name}: expected at most {most}, got {number}")


def unknown(what: str, got: object, possible: Iterable[object]) -> str:
    """Say that something is unknown, what was probably meant, and what is possible."""
    names = [str(name) for name in possible]
    meant = closest(str(got), names)
    hint = f" (did you mean {meant!r}?)" if meant else ""
    return f"unknown {what} {got!r}{hint}; possible: {', '.join(names)}"


def closest(got: str, possible: Iterable[str]) -> str | None:
    """The possible name that was probably meant, if one is close."""
    return next(iter(difflib.get_close_matches(got, list(possible), n=1)), None)
