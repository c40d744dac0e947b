"""What a layer says about arguments that are of the wrong kind, when it is built and not at the first call."""

import math
from numbers import Real
from typing import Any

from fastweights.config import unknown
from fastweights.feature_maps import FEATURE_MAPS, FeatureMap
from fastweights.layers.attention.output_gate import OUTPUT_GATES, OutputGate
from fastweights.layers.attention.short_convolution import ShortConvolution
from fastweights.memory import NORMALISATIONS, AttentionNormalisation, FastWeightState, Normalisation, backends
from fastweights.update_rules import UPDATE_RULES, UpdateRule

KINDS: dict[str, tuple[type, dict[str, Any]]] = {
    "feature_map": (FeatureMap, FEATURE_MAPS),
    "update_rule": (UpdateRule, UPDATE_RULES),
    "normalisation": (Normalisation, NORMALISATIONS),
    "convolution": (ShortConvolution, {"short": ShortConvolution}),
    "output_gate": (OutputGate, OUTPUT_GATES),
}


def check_choices(**choices: object) -> None:
    """Raise a TypeError if a choice is not a value of its kind."""
    for name, choice in choices.items():
        kind, table = KINDS[name]
        if not isinstance(choice, kind):
            possible = ", ".join(f"{made.__name__}()" for made in table.values())
            raise TypeError(f"{name}: expected a value of a {kind.__name__}, got {choice!r}; possible: {possible}")


def check_parts(**parts: object) -> None:
    """The same for parts that a layer may do without."""
    check_choices(**{name: part for name, part in parts.items() if part is not None})


def check_switches(**switches: object) -> None:
    """Raise a TypeError if what is on or off is neither."""
    for name, given in switches.items():
        if not isinstance(given, bool):
            raise TypeError(f"{name}: expected True or False, got {given!r}")


def check_reads(attention_normalisation: object, read_scale: object, backend: str) -> None:
    """Raise an error if what decides how a memory is read is of the wrong kind, or there is no such backend."""
    if not isinstance(attention_normalisation, AttentionNormalisation | bool | None):
        raise TypeError(
            f"attention_normalisation: expected AttentionNormalisation(), True, False or None, "
            f"got {attention_normalisation!r}"
        )
    if isinstance(read_scale, bool) or not isinstance(read_scale, Real) or not math.isfinite(read_scale):
        raise TypeError(f"read_scale: expected a finite number, got {read_scale!r}")
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
