"""The operator: one recurrence for every linear rule, its contract, and the choice of a backend."""

from types import MappingProxyType, ModuleType
from typing import NamedTuple

import torch
from torch import Tensor

from fastweights.memory import chunked, native, native_step, recurrent
from fastweights.shapes import Keys, Queries, Strengths, Values, Weights

BACKENDS: dict[str, ModuleType] = {"native": native, "chunked": chunked, "recurrent": recurrent}
"""Fastest first. A backend is a module with `scan`, `unavailable` and `cannot_serve`."""


class BackendStatus(NamedTuple):
    """Whether a backend can run here and, if not, why."""

    available: bool
    reason: str


def backends() -> MappingProxyType[str, BackendStatus]:
    """Every backend of `fast_weight_scan`, fastest first, and whether it can run here."""
    reasons = {name: backend.unavailable() for name, backend in BACKENDS.items()}
    return MappingProxyType({name: BackendStatus(reason is None, reason or "") for name, reason in reasons.items()})


def fast_weight_scan(
    queries: Queries,
    keys: Keys,
    values: Values,
    erase: Strengths,
    write: Strengths,
    weights: Weights | None = None,
    decay: Strengths | None = None,
    backend: str = "auto",
) -> tuple[Values, Weights]:
    """W_t = g_t W_{t-1} (I - a_t k_t k_tᵀ) + b_t v_t k_tᵀ,   y_t = W_t q_t.

    Keys and queries come mapped and normalised; a, b, g are `erase`, `write` and `decay` (in (0, 1], ones if absent),
    W_0 is `weights` (zeros if absent). Returns all reads y and the final W; gradients reach every tensor given. W is
    kept in at least float32 whatever the inputs. `auto` takes the fastest backend that can serve the call.
    """
    if backend in ("auto", "native"):
        after = native_step.step(queries, keys, values, erase, write, weights, decay)
        if after is not None:
            return after
    _check(queries, keys, values, erase, write, weights, decay)
    scan = BACKENDS[choose_backend(backend, keys)].scan
    dtype = torch.promote_types(keys.dtype, torch.float32)
    if weights is None:
        batch, heads, _, key_dim = keys.shape
        weights = keys.new_zeros(batch, heads, values.shape[-1], key_dim, dtype=dtype)
    given = (queries, keys, values, erase, write, weights, decay)
    inputs = [x if x is None or x.dtype == dtype else x.to(dtype) for x in given]
    if torch.is_autocast_enabled(keys.device.type):
        with torch.autocast(keys.device.type, enabled=False):
            reads, weights = scan(*inputs)
    else:
        reads, weights = scan(*inputs)
    return reads if values.dtype == dtype else reads.to(values.dtype), weights


def choose_backend(backend: str, keys: Tensor) -> str:
    """The backend that will serve such keys; a ValueError if the one asked for cannot."""
    if backend == "auto":
        # A single step gains nothing from a chunk that is filled up.
        order = BACKENDS if keys.shape[2] > 1 else ("native", "recurrent")
        return next(name for name in order if _refusal(name, keys) is None)
    if backend not in BACKENDS:
        raise ValueError(f"backend: unknown backend {backend!r}; possible: auto, {', '.join(BACKENDS)}")
    if (refusal := _refusal(backend, keys)) is not None:
        raise ValueError(f"backend: {backend!r} cannot serve this call: {refusal}")
    return backend


def _refusal(name: str, keys: Tensor) -> str | None:
    backend = BACKENDS[name]
    reason: str | None = backend.unavailable() or backend.cannot_serve(keys.device, keys.dtype)
    return reason


def _check(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor | None,
    decay: Tensor | None,
) -> None:
    """A ValueError or TypeError that names the first argument that does not fit the others."""
    if not isinstance(keys, Tensor) or keys.dim() != 4:
        raise _misfit("keys", keys, "a tensor of shape (b, h, t, k)")
    if not isinstance(values, Tensor) or values.dim() != 4:
        raise _misfit("values", values, "a tensor of shape (b, h, t, v)")
    b, h, t, k = keys.shape
    v = values.shape[-1]
    wanted = {
        "keys": (keys, (b, h, t, k)),
        "queries": (queries, (b, h, t, k)),
        "values": (values, (b, h, t, v)),
        "erase": (erase, (b, h, t)),
        "write": (write, (b, h, t)),
        "weights": (weights, (b, h, v, k)),
        "decay": (decay, (b, h, t)),
    }
    if not keys.dtype.is_floating_point:
        raise TypeError(f"keys: expected a floating-point dtype, got {keys.dtype}")
    accumulated = torch.promote_types(keys.dtype, torch.float32)
    for name, (tensor, shape) in wanted.items():
        if tensor is None and name in ("weights", "decay"):
            continue
        if not isinstance(tensor, Tensor) or tuple(tensor.shape) != shape:
            letters = {"weights": "(b, h, v, k)"}.get(name, "(b, h, t, ·)" if len(shape) == 4 else "(b, h, t)")
            raise _misfit(name, tensor, f"a tensor of shape {shape}, {letters} to fit keys and values")
        possible = {keys.dtype} if name in ("queries", "values") else {keys.dtype, accumulated}
        if tensor.dtype not in possible:
            expected = " or ".join(sorted(str(d) for d in possible))
            raise TypeError(f"{name}: expected dtype {expected} to go with {keys.dtype} keys, got {tensor.dtype}")
        if tensor.device != keys.device:
            raise ValueError(f"{name}: expected device {keys.device} like keys, got {tensor.device}")


def _misfit(name: str, got: object, expected: str) -> ValueError | TypeError:
    if isinstance(got, Tensor):
        return ValueError(f"{name}: expected {expected}, got shape {tuple(got.shape)}")
    return TypeError(f"{name}: expected {expected}, got {type(got).__name__}")
