"""Several sequences in one row: where each of them begins, and a memory that is reset there.

A decay of exactly zero empties the memory before a step writes, so that packed sequences never see each other, forward
and backward, on every backend.
"""

import operator
from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor

from fastweights.shapes import Keys, Mask, PerKey, PerStep, Places, Steps


def boundaries_of(cu_seqlens: Sequence[int] | Tensor, steps: int) -> Mask:
    """One row that is true at the first step of every sequence, from cumulative lengths 0, l₁, l₁ + l₂, …, `steps`."""
    ends = whole_numbers(cu_seqlens, "cu_seqlens")
    if len(ends) < 2 or ends[0] != 0 or ends[-1] != steps or sorted(ends) != ends:
        raise ValueError(f"cu_seqlens: expected cumulative lengths from 0 to {steps}, the number of steps, got {ends}")
    boundaries = torch.zeros(1, steps, dtype=torch.bool)
    boundaries[0, [end for end in ends[:-1] if end < steps]] = True
    return boundaries


def last_steps(cu_seqlens: Sequence[int] | Tensor) -> list[int]:
    """The last step of every sequence: what `keep` of the operator takes to return all final weights."""
    ends = whole_numbers(cu_seqlens, "cu_seqlens")
    if len(ends) < 2 or ends[0] != 0:
        raise ValueError(f"cu_seqlens: expected cumulative lengths from 0 on, got {ends}")
    if any(end <= start for start, end in pairwise(ends)):
        raise ValueError(f"cu_seqlens: a sequence without steps has no last one, got {ends}")
    return [end - 1 for end in ends[1:]]


def whole_numbers(given: object, name: str) -> list[int]:
    """A flat sequence or tensor of whole numbers as a list; anything else is refused, fractions too."""
    if isinstance(given, Tensor):
        wrong = given.dim() != 1 or given.is_floating_point() or given.is_complex() or given.dtype == torch.bool
        values = [given] if wrong else given.tolist()
    else:
        values = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given]
        wrong = not isinstance(given, Iterable) or not all(hasattr(value, "__index__") for value in values)
    if wrong:
        raise ValueError(f"{name}: expected a list or a tensor of whole numbers, got {given!r}")
    return [operator.index(value) for value in values]


def decay_at_boundaries(boundaries: Mask, keys: Keys, decay: PerStep | PerKey | None = None) -> PerStep | PerKey:
    """The decay, ones if there is none, with zeros where a sequence begins: what the operator takes for packed rows."""
    check_boundaries(boundaries, keys.shape[0], keys.shape[2])
    if decay is None:
        decay = torch.ones_like(keys[..., 0])
    begins = boundaries[:, None, :, None] if decay.dim() == 4 else boundaries[:, None, :]
    return decay.masked_fill(begins.to(decay.device), 0.0)


def check_boundaries(boundaries: object, batch: int, steps: int, mask: Mask | None = None) -> None:
    """A ValueError if `boundaries` are not those of such a batch, or begin a sequence with padding."""
    if not isinstance(boundaries, Tensor) or boundaries.dtype != torch.bool or boundaries.shape != (batch, steps):
        got = f"{boundaries.dtype} of shape {tuple(boundaries.shape)}" if isinstance(boundaries, Tensor) else boundaries
        raise ValueError(
            f"boundaries: expected a bool tensor of shape {(batch, steps)}, true at first steps, got {got}"
        )
    # On a GPU the question would make the host wait.
    if mask is None or mask.device.type != "cpu" or torch.compiler.is_compiling():
        return
    if bool((boundaries & ~mask).any()):
        raise ValueError("boundaries: a sequence begins at a step that the mask calls padding")


def places(boundaries: Mask, mask: Mask | None, before: Steps | None = None) -> Places:
    """How many real steps of its own sequence each step has before it; `before` counts those of an earlier segment."""
    real = torch.ones_like(boundaries) if mask is None else mask
    count = real.cumsum(dim=1) - real.long()
    start = torch.where(boundaries, count, -1).cummax(dim=1).values if count.shape[1] else count
    return torch.where(start < 0, count if before is None else count + before[:, None], count - start)


def steps_after(boundaries: Mask, mask: Mask | None, before: Steps) -> Steps:
    """How many steps the last sequence of every row has seen."""
    if boundaries.shape[1] == 0:
        return before
    last = torch.ones_like(before) if mask is None else mask[:, -1].long()
    return places(boundaries, mask, before)[:, -1] + last
