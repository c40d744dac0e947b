"""The operator: one recurrence for every linear rule, and its contract."""

from collections.abc import Sequence
from typing import overload

import torch
from torch import Tensor

from fastweights.memory.backend import Call
from fastweights.memory.choose import BACKENDS, EMPTY_START, LOW_PRECISION, SHORTCUTS, choose_backend
from fastweights.memory.packing import whole_numbers
from fastweights.shapes import KeptWeights, Keys, PerKey, PerStep, Queries, Values, Weights


@overload
def fast_weight_scan(
    queries: Queries,
    keys: Keys,
    values: Values,
    erase: PerStep,
    write: PerStep,
    weights: Weights | None = None,
    decay: PerStep | PerKey | None = None,
    lookups: Keys | None = None,
    backend: str = "auto",
    keep: None = None,
) -> tuple[Values, Weights]: ...


@overload
def fast_weight_scan(
    queries: Queries,
    keys: Keys,
    values: Values,
    erase: PerStep,
    write: PerStep,
    weights: Weights | None = None,
    decay: PerStep | PerKey | None = None,
    lookups: Keys | None = None,
    backend: str = "auto",
    *,
    keep: Sequence[int],
) -> tuple[Values, Weights, KeptWeights]: ...


def fast_weight_scan(
    queries: Queries,
    keys: Keys,
    values: Values,
    erase: PerStep,
    write: PerStep,
    weights: Weights | None = None,
    decay: PerStep | PerKey | None = None,
    lookups: Keys | None = None,
    backend: str = "auto",
    keep: Sequence[int] | None = None,
) -> tuple[Values, Weights] | tuple[Values, Weights, KeptWeights]:
    """W_t = W_{t-1} diag(g_t) (I - a_t e_t k_tᵀ) + b_t v_t k_tᵀ,   y_t = W_t q_t.

    Keys and queries come mapped and normalised; a, b, g, e are `erase`, `write`, `decay` (in [0, 1], one number per
    step or one per component of the keys; ones if absent; zero empties the memory before the step writes) and `lookups`
    (the keys if absent), W_0 is `weights` (zeros if absent). Returns all reads y and the final W; gradients reach every
    tensor given. W is kept in at least float32 whatever the inputs. `auto` takes the fastest backend that can serve the
    call. `keep` names steps, from 0 on: the weights after each of them come as a third result, `b h n v k`.
    """
    if keep is not None:
        return _scan_in_segments(queries, keys, values, erase, write, weights, decay, lookups, backend, keep)
    if backend in SHORTCUTS:
        after = SHORTCUTS[backend](queries, keys, values, erase, write, weights, decay, lookups)
        if after is not None:
            return after
    given = {
        "queries": queries,
        "keys": keys,
        "values": values,
        "erase": erase,
        "write": write,
        "weights": weights,
        "decay": decay,
        "lookups": lookups,
    }
    _check(given, keys, values)
    differentiable = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in given.values())
    chosen = choose_backend(backend, Call.of(keys, decay, lookups, differentiable))
    scan, dtype = BACKENDS[chosen].scan, torch.promote_types(keys.dtype, torch.float32)
    if weights is None and chosen not in EMPTY_START:
        batch, heads, _, key_dim = keys.shape
        weights = keys.new_zeros(batch, heads, values.shape[-1], key_dim, dtype=dtype)
    q, k, v = (queries, keys, values) if chosen in LOW_PRECISION else (x.to(dtype) for x in (queries, keys, values))
    a, b = (x if x.dtype == dtype else x.to(dtype) for x in (erase, write))
    w, g, e = (None if x is None else x.to(dtype) for x in (weights, decay, lookups))
    if keys.device.type != "meta" and torch.is_autocast_enabled(keys.device.type):
        with torch.autocast(keys.device.type, enabled=False):
            reads, weights = scan(q, k, v, a, b, w, g, e)
    else:
        reads, weights = scan(q, k, v, a, b, w, g, e)
    return reads if reads.dtype == values.dtype else reads.to(values.dtype), weights


def _scan_in_segments(
    queries: Queries,
    keys: Keys,
    values: Values,
    erase: PerStep,
    write: PerStep,
    weights: Weights | None,
    decay: PerStep | PerKey | None,
    lookups: Keys | None,
    backend: str,
    keep: Sequence[int],
) -> tuple[Values, Weights, KeptWeights]:
    """Reads, final weights and those after some steps: one scan up to each of these steps, and one for the rest."""
    sequences = {"queries": queries, "keys": keys, "values": values, "erase": erase, "write": write}
    optional = {"decay": decay, "lookups": lookups}
    _check(sequences | optional | {"weights": weights}, keys, values)
    steps, wanted = keys.shape[2], whole_numbers(keep, "keep")
    if any(not 0 <= step < steps for step in wanted):
        possible = f"steps from 0 to {steps - 1}" if steps else "none, for there are no steps"
        raise ValueError(f"keep: expected {possible}, got {wanted}")
    reads, kept, start = [], {}, 0
    for end in sorted({step + 1 for step in wanted} | {steps}):
        part = {name: x if x is None else x[:, :, start:end] for name, x in (sequences | optional).items()}
        read, weights = fast_weight_scan(**part, weights=weights, backend=backend)  # type: ignore[arg-type]
        reads.append(read)
        kept[end - 1], start = weights, end
    assert weights is not None
    states = torch.stack([kept[step] for step in wanted], 2) if wanted else weights[:, :, None][:, :, :0]
    return torch.cat(reads, dim=2), weights, states


def _check(given: dict[str, Tensor | None], keys: Tensor, values: Tensor) -> None:
    """A ValueError or TypeError that names the first argument that does not fit the others."""
    if not isinstance(keys, Tensor) or keys.dim() != 4:
        raise _misfit("keys", keys, "a tensor of shape (b, h, t, k)")
    if not isinstance(values, Tensor) or values.dim() != 4:
        raise _misfit("values", values, "a tensor of shape (b, h, t, v)")
    if not keys.dtype.is_floating_point or keys.dtype.itemsize < 2:
        raise TypeError(f"keys: expected a floating-point dtype of at least 16 bits, got {keys.dtype}")
    accumulated = torch.promote_types(keys.dtype, torch.float32)
    for name, shape in _shapes(keys, values).items():
        tensor = given[name]
        if tensor is None and name in ("weights", "decay", "lookups"):
            continue
        if name == "decay" and isinstance(tensor, Tensor) and tensor.dim() == 4:
            shape = tuple(keys.shape)
        if not isinstance(tensor, Tensor) or tuple(tensor.shape) != shape:
            letters = {"weights": "(b, h, v, k)"}.get(name, "(b, h, t, ·)" if len(shape) == 4 else "(b, h, t)")
            raise _misfit(name, tensor, f"a tensor of shape {shape}, {letters} to fit keys and values")
        possible = {keys.dtype} if name in ("queries", "values", "lookups") else {keys.dtype, accumulated}
        if tensor.dtype not in possible:
            expected = " or ".join(sorted(str(d) for d in possible))
            raise TypeError(f"{name}: expected dtype {expected} to go with {keys.dtype} keys, got {tensor.dtype}")
        if tensor.device != keys.device:
            raise ValueError(f"{name}: expected device {keys.device} like keys, got {tensor.device}")


def _shapes(keys: Tensor, values: Tensor) -> dict[str, tuple[int, ...]]:
    b, h, t, k = keys.shape
    v = values.shape[-1]
    return {
        "keys": (b, h, t, k),
        "queries": (b, h, t, k),
        "values": (b, h, t, v),
        "erase": (b, h, t),
        "write": (b, h, t),
        "weights": (b, h, v, k),
        "decay": (b, h, t),
        "lookups": (b, h, t, k),
    }


def _misfit(name: str, got: object, expected: str) -> ValueError | TypeError:
    if isinstance(got, Tensor):
        return ValueError(f"{name}: expected {expected}, got shape {tuple(got.shape)}")
    return TypeError(f"{name}: expected {expected}, got {type(got).__name__}")
