"""The recurrence in chunks: matrix products and one triangular solve per chunk, with a backward pass of its own.

Inside a chunk of C steps the corrections U solve a unit lower triangular system (the WY form), so the sequential depth
falls from t to t / C. The backward keeps U and the weights at the chunk starts, never the weights of every step. The
formulas are in chunk_by_head.py and chunk_by_channel.py, their derivation in docs/math.md#chunks.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from fastweights.kernels.transforms import differentiated_again
from fastweights.memory import chunk_by_channel, chunk_by_head, recurrent
from fastweights.memory.backend import Call
from fastweights.memory.chunk_by_head import Chunk
from fastweights.shapes import Keys, PerKey, PerStep, Queries, Values, Weights

CHUNK = 64
"""Steps per chunk; the last one is filled up with steps that do nothing."""

CHANNEL_CHUNK = 16
"""Steps per chunk with decay per channel, where a chunk needs as many vectors as it has pairs of steps."""


def unavailable() -> str | None:
    """Why this backend cannot run here at all; None if it can."""
    return None


def cannot_serve(call: Call) -> str | None:
    """Why this backend cannot serve the call; None if it can."""
    if call.transform != "none":
        return "it has no rule for torch.func and forward-mode AD; possible: backend='recurrent', which has them all"
    if call.device.type == "mps" and call.decay != "none":
        return "it multiplies decays in float64, which mps does not have; possible: backend='recurrent'"
    return None


def suits(call: Call) -> bool:
    """False for a single step, for which most of a chunk would be filling."""
    return call.steps > 1


def scan(
    queries: Queries,
    keys: Keys,
    values: Values,
    erase: PerStep,
    write: PerStep,
    weights: Weights,
    decay: PerStep | PerKey | None = None,
    lookups: Keys | None = None,
    chunk: int | None = None,
) -> tuple[Values, Weights]:
    """W_t = W_{t-1} diag(g_t) (I - a_t e_t k_tᵀ) + b_t v_t k_tᵀ,   y_t = W_t q_t."""
    batch, heads, steps, _ = keys.shape
    if steps == 0:
        return values.clone(), weights.clone()
    by_channel = decay is not None and decay.dim() == 4
    chunk = chunk or (CHANNEL_CHUNK if by_channel else CHUNK)
    fill = -steps % chunk

    def fold(x: Tensor, filling: float = 0.0) -> Tensor:
        """b h t … → n c C …, filled up to whole chunks."""
        if fill:  # padding by nothing would copy
            x = torch.nn.functional.pad(x, (0, 0) * (x.dim() - 3) + (0, fill), value=filling)
        return x.reshape(batch * heads, (steps + fill) // chunk, chunk, *x.shape[3:])

    reads, state = _Chunks.apply(
        steps,
        weights.flatten(0, 1).mT,
        *(fold(x) for x in (queries, keys, values, erase, write)),
        None if decay is None else fold(decay, 1.0),
        None if lookups is None else fold(lookups),
    )
    return reads.unflatten(0, (batch, heads)).flatten(2, 3)[:, :, :steps], state.mT.unflatten(0, (batch, heads))


class _Chunks(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, steps: int, state: Tensor, *inputs: Tensor | None) -> tuple[Tensor, Tensor]:
        formulas, sequence, first = _formulas(inputs), Chunk(*inputs), state  # type: ignore[arg-type]
        reads, corrections = torch.empty_like(sequence.values), torch.empty_like(sequence.values)
        starts = state.new_empty(state.shape[0], sequence.keys.shape[1], *state.shape[1:])
        for c in range(starts.shape[1]):
            starts[:, c] = state
            reads[:, c], corrections[:, c], state = formulas.forward(_chunk(sequence, c), state)
        if (spoilt := _spoilt(reads, state)) is not None:
            reads[spoilt], state[spoilt] = _steps(steps, first[spoilt], _rows(sequence, spoilt))
        ctx.steps = steps
        ctx.save_for_backward(first, *inputs, corrections, starts)
        return reads, state

    @staticmethod
    def backward(ctx: Any, d_reads: Tensor, d_state: Tensor) -> tuple[Tensor | None, ...]:
        first, *inputs, corrections, starts = ctx.saved_tensors
        if differentiated_again(d_reads, d_state):
            needed = ctx.needs_input_grad[1:]
            return None, *_gradients_of_steps(ctx.steps, first, Chunk(*inputs), d_reads, d_state, needed)
        formulas, sequence, given = _formulas(inputs), Chunk(*inputs), d_state
        gradients = Chunk(*(None if x is None else torch.empty_like(x) for x in inputs))  # type: ignore[arg-type]
        for c in reversed(range(starts.shape[1])):
            found, d_state = formulas.backward(
                _chunk(sequence, c), corrections[:, c], starts[:, c], d_reads[:, c], d_state
            )
            for whole, part in zip(gradients, found, strict=True):
                if whole is not None:
                    whole[:, c] = part
        if (spoilt := _spoilt(d_state, *gradients)) is not None:
            rows = first[spoilt], _rows(sequence, spoilt)
            found = _gradients_of_steps(ctx.steps, *rows, d_reads[spoilt], given[spoilt])
            for whole, part in zip((d_state, *gradients), found, strict=True):
                if whole is not None and part is not None:
                    whole[spoilt] = part
        return None, d_state, *gradients


def _formulas(inputs: Any) -> Any:
    decay = inputs[5]
    return chunk_by_channel if decay is not None and decay.dim() == 4 else chunk_by_head


def _chunk(sequence: Chunk, c: int) -> Chunk:
    return Chunk(*(None if x is None else x[:, c] for x in sequence))  # type: ignore[arg-type]


def _rows(sequence: Chunk, rows: Tensor) -> Chunk:
    return Chunk(*(None if x is None else x[rows] for x in sequence))  # type: ignore[arg-type]


def _spoilt(*results: Tensor | None) -> Tensor | None:
    """Which of the n rows have a NaN or an infinity in their results; None if none has.

    Asked on the CPU only: elsewhere the question would make the host wait.
    """
    given = [x for x in results if x is not None]
    if torch.compiler.is_compiling() or given[0].device.type != "cpu" or all(x.sum().isfinite() for x in given):
        return None
    return torch.stack([~x.isfinite().flatten(1).all(dim=1) for x in given]).any(dim=0)


def _steps(steps: int, state: Tensor, sequence: Chunk) -> tuple[Tensor, Tensor]:
    """The same step by step. Matrix products meet later steps with the factor zero, and zero times NaN is NaN.

    So it is with the steps that fill the last chunk up: they are left out. Rows without either keep the results of the
    products, so that one sequence never changes a bit of another.
    """
    whole = Chunk(*(None if x is None else x.flatten(1, 2)[:, None, :steps] for x in sequence))  # type: ignore[arg-type]
    reads, weights = recurrent.scan(*whole[:5], state.mT[:, None], whole.decay, whole.lookups)
    chunks, chunk = sequence.keys.shape[1:3]
    filled = torch.nn.functional.pad(reads[:, 0], (0, 0, 0, chunks * chunk - steps))
    return filled.unflatten(1, (chunks, chunk)), weights[:, 0].mT


def _gradients_of_steps(
    steps: int, state: Tensor, sequence: Chunk, d_reads: Tensor, d_state: Tensor, needed: Sequence[bool] | None = None
) -> tuple[Tensor | None, ...]:
    """The gradients of the recurrence step by step; those `needed` can be differentiated again."""
    tensors: list[Tensor | None] = [state, *sequence]
    if needed is None:
        tensors = [None if x is None else x.detach().requires_grad_() for x in tensors]
        needed = [x is not None for x in tensors]
    with torch.enable_grad():
        outputs = _steps(steps, tensors[0], Chunk(*tensors[1:]))  # type: ignore[arg-type]
    asked = [x for x, wanted in zip(tensors, needed, strict=True) if x is not None and wanted]
    again = torch.is_grad_enabled()
    found = iter(torch.autograd.grad(outputs, asked, (d_reads, d_state), create_graph=again, materialize_grads=True))
    return tuple(next(found) if wanted else None for wanted in needed)
