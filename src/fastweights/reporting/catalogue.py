"""The components there are, as the classes themselves describe them."""

from dataclasses import MISSING, fields, is_dataclass
from inspect import cleandoc

from fastweights.feature_maps import FEATURE_MAPS
from fastweights.memory.normalise import NORMALISATIONS, AttentionNormalisation
from fastweights.update_rules import UPDATE_RULES, LinearRule


def feature_maps() -> list[tuple[str, ...]]:
    """Every feature map of the table."""
    return [entry(name, component) for name, component in FEATURE_MAPS.items()]


def update_rules() -> list[tuple[str, ...]]:
    """Every update rule of the table; those that are not linear in W run step by step."""
    return [
        entry(name, rule, "" if issubclass(rule, LinearRule) else "; runs step by step")
        for name, rule in UPDATE_RULES.items()
    ]


def normalisations() -> list[tuple[str, ...]]:
    """Every normalisation of the table, and attention normalisation, a choice beside them."""
    entries = [entry(name, component) for name, component in NORMALISATIONS.items()]
    return [*entries, entry("attention", AttentionNormalisation)]


def entry(name: str, component: type, note: str = "") -> tuple[str, ...]:
    """Name, formula (the first paragraph of the docstring), call with its defaults, and place in the paper."""
    formula = " ".join(cleandoc(component.__doc__ or "").partition("\n\n")[0].split())
    equations = getattr(component, "equations", "-")
    equations = f"Eq. {equations}" if equations[0].isdigit() else equations
    place = "" if equations == "-" else f", {equations} of the paper"
    return name, formula.removesuffix("."), f"{call(component)}{place}{note}"


def call(component: type) -> str:
    """How the component is made, its defaults spelled out; of a component among them, what is not a default."""
    arguments = (
        field.name if field.default is MISSING else f"{field.name}={_value(field.default)}"
        for field in fields(component)
        if field.init
    )
    return f"{component.__name__}({', '.join(arguments)})"


def _value(value: object) -> str:
    if not is_dataclass(value):
        return repr(value)
    given = {field.name: x for field in fields(value) if (x := getattr(value, field.name)) != field.default}
    return f"{type(value).__name__}({', '.join(f'{name}={x!r}' for name, x in given.items())})"
