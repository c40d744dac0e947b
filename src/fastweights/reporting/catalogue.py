"""The components there are, as the classes themselves describe them."""

from dataclasses import MISSING, fields, is_dataclass
from inspect import cleandoc

from fastweights.feature_maps import FEATURE_MAPS
from fastweights.memory.normalise import NORMALISATIONS, AttentionNormalisation
from fastweights.update_rules import UPDATE_RULES, LinearRule

COLUMNS = ("name", "class", "definition", "in the paper")


def feature_map_rows() -> list[tuple[str, ...]]:
    """Every feature map of the table."""
    return [row(name, component) for name, component in FEATURE_MAPS.items()]


def update_rule_rows() -> list[tuple[str, ...]]:
    """Every update rule of the table, and how it can run."""
    return [
        (*row(name, rule), "any backend" if issubclass(rule, LinearRule) else "step by step")
        for name, rule in UPDATE_RULES.items()
    ]


def normalisation_rows() -> list[tuple[str, ...]]:
    """Every normalisation of the table, and attention normalisation, a choice beside them."""
    rows = [row(name, component) for name, component in NORMALISATIONS.items()]
    return [*rows, row("attention", AttentionNormalisation)]


def row(name: str, component: type) -> tuple[str, ...]:
    """Name, call with its defaults, formula (the first paragraph of the docstring), place in the paper."""
    formula = " ".join(cleandoc(component.__doc__ or "").partition("\n\n")[0].split())
    return name, call(component), formula.removesuffix("."), getattr(component, "equations", "-")


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
