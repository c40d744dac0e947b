"""The writes of a sequence and what their keys retrieve: all at once by the operator, or by a rule's own steps."""

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from fastweights.memory.memory_norms import memory_norms
from fastweights.memory.packing import decay_at_boundaries
from fastweights.memory.run import coefficients_of
from fastweights.memory.scan import fast_weight_scan
from fastweights.memory.state import FastWeightState
from fastweights.memory.write_inputs import WriteInputs
from fastweights.update_rules import Coefficients, LinearRule, UpdateRule
from fastweights.update_rules.normalised_delta import reciprocal_or_zero


class TracedWrites(NamedTuple):
    """What every write found and did, before any division by z; numbers are `b h t`, vectors `b h t v`."""

    found: Tensor
    """M k"""
    change: Tensor
    """c = (W k - M k) / |k|²"""
    overlaps: Tensor | None
    """z_{t-1}·k_t, with z as it has decayed."""
    written: Tensor
    removed: Tensor
    weights: Tensor
    balance: Tensor | None
    eigenvalue: Tensor | None
    decay: Tensor | None
    kept: Tensor
    """W after the writes that were asked for, `b h n v k`."""


def writes_by_scan(
    rule: LinearRule, writes: WriteInputs, state: FastWeightState, backend: str, keep: Sequence[int]
) -> TracedWrites:
    """All writes of a linear rule at once."""
    (erase, write, decay, lookups), overlaps = coefficients_along(rule, writes, state, backend)
    keys = writes.keys
    values = writes.values * (write if write.dim() == 4 else write[..., None])
    memory = (keys, values, erase, torch.ones_like(erase), state.weights, decay, lookups, backend)
    found, kept = _read_before(keys, *memory, keep=keep)
    looked_up = found if lookups is None else _read_before(lookups, *memory)[0]
    erased = erase[..., None] * looked_up
    addressed, change, length = keys if lookups is None else lookups, values - erased, norm(keys)
    return TracedWrites(
        found=found,
        change=change,
        overlaps=overlaps,
        written=norm(values) * length,
        removed=norm(erased) * length,
        weights=memory_norms(state.weights, keys, change, found, decay),
        balance=erase * addressed.sum(dim=-1) / (write.mean(dim=-1) if write.dim() == 4 else write),
        eigenvalue=erase * (length.square() if lookups is None else dot(lookups, keys)),
        decay=decay,
        kept=kept,
    )


def coefficients_along(
    rule: LinearRule, writes: WriteInputs, state: FastWeightState, backend: str
) -> tuple[Coefficients, Tensor | None]:
    """a, b, g, e of every write, with g zero where a packed sequence begins, and z_{t-1}·k_t if there is a z."""
    overlaps, z = None, state.normaliser
    if rule.needs_normaliser:
        assert z is not None
        overlaps = _overlaps(writes.keys, z, _decay(writes, None), backend)
    found = coefficients_of(rule, writes, overlaps)
    found = found._replace(decay=_decay(writes, found.decay))
    if overlaps is None and z is not None:
        overlaps = _overlaps(writes.keys, z, found.decay, backend)
    return found, overlaps


def writes_by_steps(
    rule: UpdateRule, writes: WriteInputs, state: FastWeightState, strengths: Tensor, keep: Sequence[int]
) -> TracedWrites:
    """The writes of a rule that is not linear in W: it has no coefficients, hence no balance and no eigenvalue."""
    weights, z = state.weights, state.normaliser
    writes = writes.to(weights.dtype)
    keys, values = writes.keys, writes.values
    empty = (values[:, :, :0], values[:, :, :0], *3 * (keys[:, :, :0, 0],))
    steps: list[tuple[Tensor, ...]] = []
    kept: list[Tensor] = []
    for t in range(keys.shape[2]):
        key, value = keys[:, :, t], values[:, :, t]
        if writes.boundaries is not None:
            begins = writes.boundaries[:, t, None, None]
            weights = weights.masked_fill(begins[..., None], 0.0)
            z = None if z is None else z.masked_fill(begins, 0.0)
        after = rule.step(weights, key, value, {name: gate[:, :, t] for name, gate in writes.gates.items()}, z)
        if writes.mask is not None:
            after = torch.where(writes.mask[:, t, None, None, None], after, weights)
        added = torch.einsum("bh,bhv,bhk->bhvk", strengths[:, :, t].to(weights.dtype), value, key)
        found, stored = (torch.einsum("bhvk,bhk->bhv", w, key) for w in (weights, after))
        change = (stored - found) * reciprocal_or_zero(dot(key, key))[..., None]
        overlap = torch.zeros_like(key[..., 0]) if z is None else dot(z, key)
        steps.append((found, change, overlap, _size(weights + added - after), _size(after)))
        weights, z = after, None if z is None else z + key
        kept += [weights] if t in keep else []
    columns = [torch.stack(x, dim=2) for x in zip(*steps, strict=True)] if steps else list(empty)
    return TracedWrites(
        found=columns[0],
        change=columns[1],
        overlaps=None if z is None else columns[2],
        written=strengths * norm(values) * norm(keys),
        removed=columns[3],
        weights=columns[4],
        balance=None,
        eigenvalue=None,
        decay=_decay(writes, None),
        kept=torch.stack(kept, dim=2) if kept else weights[:, :, None][:, :, :0],
    )


def _decay(writes: WriteInputs, decay: Tensor | None) -> Tensor | None:
    return decay if writes.boundaries is None else decay_at_boundaries(writes.boundaries, writes.keys, decay)


def _read_before(
    vectors: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor,
    decay: Tensor | None,
    lookups: Tensor | None,
    backend: str,
    keep: Sequence[int] = (),
) -> tuple[Tensor, Tensor]:
    """W_{t-1} diag(g_t) x_t: the memory of each step is read with the vector of the next. And W after `keep`."""
    if decay is not None:
        vectors = vectors * (decay if decay.dim() == 4 else decay[..., None])
    first = torch.einsum("bhvk,bhtk->bhtv", weights.to(vectors.dtype), vectors[:, :, :1])
    following = torch.cat([vectors[:, :, 1:], vectors[:, :, :1]], dim=2)
    reads, _, kept = fast_weight_scan(
        following, keys, values, erase, write, weights, decay, lookups, backend=backend, keep=list(keep)
    )
    return torch.cat([first, reads], dim=2)[:, :, : keys.shape[2]], kept


def _overlaps(keys: Tensor, normaliser: Tensor, decay: Tensor | None, backend: str) -> Tensor:
    """z_{t-1} diag(g_t) · k_t: z is a memory under the sum rule whose value is always 1."""
    keys, decay = keys.to(normaliser.dtype), None if decay is None else decay.to(normaliser.dtype)
    ones = torch.ones_like(keys[..., 0])
    memory = (keys, ones[..., None], torch.zeros_like(ones), ones, normaliser[:, :, None], decay, None, backend)
    return _read_before(keys, *memory)[0][..., 0]


def norm(x: Tensor) -> Tensor:
    """|x| of the last dimension."""
    return torch.linalg.vector_norm(x, dim=-1)


def dot(x: Tensor, y: Tensor) -> Tensor:
    """x·y along the last dimension."""
    return torch.linalg.vecdot(x, y)


def _size(weights: Tensor) -> Tensor:
    return torch.linalg.vector_norm(weights, dim=(-2, -1))
