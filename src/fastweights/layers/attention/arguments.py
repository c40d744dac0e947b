"""What a layer says about arguments that are of the wrong kind, when it is built and not at the first call."""

from typing import Any

from fastweights.config import unknown
from fastweights.feature_maps import FEATURE_MAPS, FeatureMap
from fastweights.memory import NORMALISATIONS, FastWeightState, Normalisation, backends
from fastweights.update_rules import UPDATE_RULES, UpdateRule

KINDS: dict[str, tuple[type, dict[str, Any]]] = {
    "feature_map": (FeatureMap, FEATURE_MAPS),
    "update_rule": (UpdateRule, UPDATE_RULES),
    "normalisation": (Normalisation, NORMALISATIONS),
}


def check_choices(backend: str, **choices: object) -> None:
    """Raise a TypeError if a choice is not a value of its kind, a ValueError if there is no such backend."""
    for name, choice in choices.items():
        kind, table = KINDS[name]
        if not isinstance(choice, kind):
            possible = ", ".join(f"{made.__name__}()" for made in table.values())
            raise TypeError(f"{name}: expected a value of a {kind.__name__}, got {choice!r}; possible: {possible}")
    if backend not in ("auto", *backends()):
        raise ValueError(f"backend: {unknown('backend', backend, ('auto', *backends()))}")


def check_sizes(**sizes: int | None) -> None:
    """Raise a ValueError for a size below one."""
    for name, size in sizes.items():
        if size is not None and size < 1:
            raise ValueError(f"{name}: expected at least 1, got {size}")


def check_state(state: object) -> None:
    """Raise a TypeError if something else than a state was given as one."""
    if not isinstance(state, FastWeightState):
        raise TypeError(
            f"state: expected a FastWeightState, as forward, write or initial_state return it, "
            f"got {type(state).__name__}"
        )
