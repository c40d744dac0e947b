"""One long sequence over several processes: each holds a stretch of it, and only states are exchanged.

The operator is affine in the weights that a stretch starts from. With A = Π_t diag(g_t) (I - a_t e_t k_tᵀ), a k × k
matrix per head, and B, the weights that the stretch makes from nothing,

    W_end = W_start A + B,        y_t = W_start (A_t q_t) + B_t q_t.

The rows of a memory never meet, so one scan of v + k rows, which start as v rows of zeros and as the identity, gives
B, A and both halves of every read at once. What the processes exchange are A and B: (v + k) k numbers per head and
process, however long the sequence is. The derivation is in docs/math.md#stretches.
"""

from typing import Any

import torch
from torch import Tensor, distributed
from torch.autograd.function import once_differentiable

from fastweights.memory.scan import fast_weight_scan
from fastweights.shapes import Keys, PerKey, PerStep, Queries, Values, Weights


def sequence_parallel_scan(
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
    group: distributed.ProcessGroup | None = None,
) -> tuple[Values, Weights]:
    """Compute `fast_weight_scan` of a sequence whose stretches lie on the processes of a group, in order of rank.

    Every process of the group gives its own stretch, of any length, and the weights before the whole sequence, the
    same ones everywhere. It gets the reads of its stretch and the weights after the whole sequence. Gradients are
    those of the sum of what all processes differentiate, so every process has to call backward, with its own loss; the
    gradient of the initial weights is the same everywhere. Inputs have to be finite.
    """
    if not distributed.is_initialized():
        raise ValueError("group: no processes have joined; torch.distributed.init_process_group() comes first")
    batch, heads, _, key_dim = keys.shape
    value_dim, dtype = values.shape[-1], torch.promote_types(keys.dtype, torch.float32)
    unit = torch.eye(key_dim, dtype=dtype, device=keys.device).expand(batch, heads, -1, -1)
    nothing = unit.new_zeros(batch, heads, value_dim, key_dim)
    if weights is None:
        weights = nothing
    elif weights.shape != nothing.shape:
        raise ValueError(f"weights: expected shape {tuple(nothing.shape)}, got {tuple(weights.shape)}")
    q, k, v, a, b, w = (x.to(dtype) for x in (queries, keys, values, erase, write, weights))
    g, e = (None if x is None else x.to(dtype) for x in (decay, lookups))
    # No value is written into the rows that follow the identity.
    padded = torch.nn.functional.pad(v, (0, key_dim))
    halves, ends = fast_weight_scan(q, k, padded, a, b, torch.cat([nothing, unit], dim=2), g, e, backend)
    # A process that has nothing to differentiate still has to be there when the others exchange gradients.
    present = torch.empty(0, requires_grad=torch.is_grad_enabled())
    start, final = _Exchange.apply(w, ends, present, group)
    own, propagated = halves.split([value_dim, key_dim], dim=-1)
    return (own + propagated @ start.mT).to(values.dtype), final


class _Exchange(torch.autograd.Function):
    """S_0 = W, S_{r+1} = S_r A_r + B_r: the weights before this process's stretch, and those after the last one.

    Backward, with G_r for the gradient that process r has for S_r and F for the sum of all that they have for the last:
    D_n = F, D_r = D_{r+1} A_rᵀ + G_r, so that dB_r = D_{r+1}, dA_r = S_rᵀ D_{r+1} and dW = D_0.
    """

    @staticmethod
    def forward(
        ctx: Any, weights: Tensor, ends: Tensor, present: Tensor, group: distributed.ProcessGroup | None
    ) -> tuple[Tensor, ...]:
        rows = weights.shape[2]
        ctx.group, ctx.rank = group, distributed.get_rank(group)
        transitions, state, start = [], weights, weights
        for rank, end in enumerate(gather_states(ends, group)):
            if rank == ctx.rank:
                start = state
            state = state @ end[:, :, rows:] + end[:, :, :rows]
            transitions.append(end[:, :, rows:])
        ctx.save_for_backward(start, *transitions)
        return start.clone(), state.clone()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_start: Tensor, d_final: Tensor) -> tuple[Tensor | None, ...]:
        start, *transitions = ctx.saved_tensors
        rows = start.shape[2]
        found = gather_states(torch.cat([d_start, d_final], dim=2), ctx.group)
        after = torch.stack([gradients[:, :, rows:] for gradients in found]).sum(0)
        d_end = after
        for rank in reversed(range(len(transitions))):
            if rank == ctx.rank:
                d_end = after
            after = after @ transitions[rank].mT + found[rank][:, :, :rows]
        return after, torch.cat([d_end, start.mT @ d_end], dim=2), None, None


def gather_states(state: Tensor, group: distributed.ProcessGroup | None) -> list[Tensor]:
    """The states of all processes, in order of rank: all that these ever exchange."""
    state = state.contiguous()
    states = [torch.empty_like(state) for _ in range(distributed.get_world_size(group))]
    distributed.all_gather(states, state, group=group)
    return states
