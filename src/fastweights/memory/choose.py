"""The table of backends, and which of them serves a call."""

from collections.abc import Callable
from types import MappingProxyType
from typing import NamedTuple

from torch import Tensor

from fastweights.memory import chunked, native, recurrent, triton
from fastweights.memory.backend import Backend, Call

BACKENDS: dict[str, Backend] = {"native": native, "triton": triton, "chunked": chunked, "recurrent": recurrent}
"""Fastest first."""

STEP_BY_STEP = "recurrent"
"""The backend whose name stands for running a rule by its definition, which rules that are not linear need."""

Shortcut = Callable[
    [Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None], tuple[Tensor, Tensor] | None
]
"""`step` of a backend: reads and weights after a single step, or None if the inputs need the general path."""

SHORTCUTS: dict[str, Shortcut] = {
    name: module.__dict__["step"] for name, module in BACKENDS.items() if "step" in module.__dict__
}
"""Tried before anything else, by the name of the backend asked for; `auto` tries the fastest."""
if SHORTCUTS:
    SHORTCUTS["auto"] = next(iter(SHORTCUTS.values()))

LOW_PRECISION = {name for name, module in BACKENDS.items() if module.__dict__.get("takes_low_precision")}
"""Backends that are handed queries, keys and values of 16 bits as they are; the others get them in float32."""

EMPTY_START = {name for name, module in BACKENDS.items() if module.__dict__.get("starts_empty")}
"""Backends that are handed no weights where a memory begins empty; the others get zeros."""


class BackendStatus(NamedTuple):
    """The availability of a backend, and the reason if it cannot run here."""

    available: bool
    reason: str


def backends() -> MappingProxyType[str, BackendStatus]:
    """Every backend of `fast_weight_scan`, fastest first, and whether it can run here."""
    reasons = {name: backend.unavailable() for name, backend in BACKENDS.items()}
    return MappingProxyType({name: BackendStatus(reason is None, reason or "") for name, reason in reasons.items()})


def choose_backend(backend: str, call: Call) -> str:
    """The name of the backend that will serve the call; a ValueError if the one asked for cannot."""
    if backend == "auto":
        possible = [name for name in BACKENDS if _refusal(name, call) is None]
        return next((name for name in possible if BACKENDS[name].suits(call)), possible[0])
    if backend not in BACKENDS:
        raise ValueError(f"backend: unknown backend {backend!r}; possible: auto, {', '.join(BACKENDS)}")
    if (refusal := _refusal(backend, call)) is not None:
        raise ValueError(f"backend: {backend!r} cannot serve this call: {refusal}")
    return backend


def _refusal(name: str, call: Call) -> str | None:
    return BACKENDS[name].unavailable() or BACKENDS[name].cannot_serve(call)
