"""The C++ kernel (csrc/) behind torch.library custom operators: forward and backward step by step.

The forward saves what every step retrieved and the weights every CHECKPOINT_EVERY steps, never the weights of every
step; the backward computes the rest again from there. Short sequences that begin with an empty memory are computed
without W where that takes less (docs/benchmarks.md, Short sequences): a choice by sizes alone. Results do not depend on
the number of threads, bit for bit.
"""

from typing import Any

import torch
from torch import Tensor

from fastweights.kernels.native import library
from fastweights.kernels.native.buffer_pool import empty, empty_like
from fastweights.kernels.native.library import contiguous_rows, sequence
from fastweights.kernels.transforms import STEP_BY_STEP, batched

NO_SECOND = f"the native backend has no second derivative; {STEP_BY_STEP}"
NO_VMAP = f"the native backend has no gradients for many vectors at once; {STEP_BY_STEP}"

CHECKPOINT_EVERY = 128
"""Steps between two saved states: 64 × 64 weights then cost half as much memory as their values."""


def run(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor | None,
    decay: Tensor | None,
    lookups: Tensor | None,
    differentiable: bool,
) -> tuple[Tensor, Tensor]:
    """Reads and final weights of a sequence that begins with these, or with none; all tensors have one type."""
    inputs = (queries, keys, values, erase, write, weights, decay, lookups)
    # The dispatcher would take half the time of a single step.
    if not differentiable and not library.needs_dispatcher(inputs):
        return _launch_forward(*inputs, None, None)
    reads, final, _, _ = scan_forward(*inputs, differentiable)
    return reads, final


def _launch_forward(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor | None,
    decay: Tensor | None,
    lookups: Tensor | None,
    retrieved: Tensor | None,
    checkpoints: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Reads and final weights; retrieved values and checkpoints are filled if given."""
    reads, final = empty_like(values), empty(_weights_shape(keys, values), values)
    if 0 in final.shape:
        reads.zero_()
    inputs = _with_rows(queries, keys, values, erase, write, weights, decay, lookups)
    arguments = (
        *_inputs(*inputs),
        *sequence(reads),
        final.data_ptr(),
        0 if retrieved is None else retrieved.data_ptr(),
        0 if checkpoints is None else checkpoints.data_ptr(),
    )
    library.call("scan_forward", arguments, keys.dtype)
    return reads, final


def _weights_shape(keys: Tensor, values: Tensor) -> tuple[int, ...]:
    return *keys.shape[:2], values.shape[-1], keys.shape[-1]


Inputs = tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor | None, Tensor | None, Tensor | None]


def _with_rows(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor | None,
    decay: Tensor | None,
    lookups: Tensor | None,
) -> Inputs:
    """The same inputs, laid out as the kernels take them."""
    return (
        contiguous_rows(queries),
        contiguous_rows(keys),
        contiguous_rows(values),
        erase,
        write,
        None if weights is None else weights.contiguous(),
        decay if decay is None or decay.dim() == 3 else contiguous_rows(decay),
        None if lookups is None else contiguous_rows(lookups),
    )


def _inputs(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor | None,
    decay: Tensor | None,
    lookups: Tensor | None,
) -> tuple[int, ...]:
    """`ScanShape` and `ScanInputs` of csrc/capi.h."""
    return (
        *keys.shape,
        values.shape[-1],
        CHECKPOINT_EVERY,
        *sequence(queries),
        *sequence(keys),
        *sequence(values),
        *sequence(erase),
        *sequence(write),
        *sequence(decay),
        decay is not None and decay.dim() == 4,
        *sequence(lookups),
        0 if weights is None else weights.data_ptr(),
    )


def _saved_buffers(keys: Tensor, values: Tensor, differentiable: bool) -> tuple[Tensor, Tensor]:
    """Buffers saved for the backward pass, retrieved values and checkpoints; empty if no gradient is needed."""
    batch, heads, steps, key_dim = keys.shape
    value_dim = values.shape[-1]
    # Those strictly inside the sequence: the first state is an input, the last one a result.
    inside = max(steps - 1, 0) // CHECKPOINT_EVERY
    return (
        empty((batch, heads, steps, value_dim) if differentiable else (0,), values),
        empty((batch, heads, inside, value_dim, key_dim) if differentiable else (0,), values),
    )


@torch.library.custom_op("fastweights::scan_forward", mutates_args=())
def scan_forward(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor | None,
    decay: Tensor | None,
    lookups: Tensor | None,
    differentiable: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Reads, final weights, retrieved values and checkpoints; the last two are empty unless `differentiable`."""
    retrieved, checkpoints = _saved_buffers(keys, values, differentiable)
    filled = (retrieved, checkpoints) if differentiable else (None, None)
    reads, final = _launch_forward(queries, keys, values, erase, write, weights, decay, lookups, *filled)
    return reads, final, retrieved, checkpoints


@scan_forward.register_fake
def _(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor | None,
    decay: Tensor | None,
    lookups: Tensor | None,
    differentiable: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    final = values.new_empty(_weights_shape(keys, values))
    return empty_like(values), final, *_saved_buffers(keys, values, differentiable)


def _new_gradients(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor | None,
    decay: Tensor | None,
    lookups: Tensor | None,
) -> list[Tensor]:
    """One gradient for each input, laid out like it; an empty one for an absent input."""
    gradients = [empty_like(x) for x in (queries, keys, values)] + [torch.empty_like(x) for x in (erase, write)]
    gradients.append(erase.new_empty(0) if weights is None else empty(weights.shape, weights))
    if decay is not None and decay.dim() == 3:
        gradients.append(torch.empty_like(decay))
    else:
        gradients.append(erase.new_empty(0) if decay is None else empty_like(decay))
    gradients.append(erase.new_empty(0) if lookups is None else empty_like(lookups))
    return gradients


@torch.library.custom_op("fastweights::scan_backward", mutates_args=())
def scan_backward(
    grad_reads: Tensor,
    grad_final: Tensor | None,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor | None,
    decay: Tensor | None,
    lookups: Tensor | None,
    retrieved: Tensor,
    checkpoints: Tensor,
) -> list[Tensor]:
    """Gradients of queries, keys, values, erase, write, weights, decay and lookups."""
    gradients = _new_gradients(queries, keys, values, erase, write, weights, decay, lookups)
    if 0 in _weights_shape(keys, values):
        for gradient in gradients:
            gradient.zero_()
    inputs = _with_rows(queries, keys, values, erase, write, weights, decay, lookups)
    grad_reads, grad_final = contiguous_rows(grad_reads), None if grad_final is None else grad_final.contiguous()
    grad_queries, grad_keys, grad_values, grad_erase, grad_write, grad_weights, grad_decay, grad_lookups = gradients
    arguments = (
        *_inputs(*inputs),
        retrieved.data_ptr(),
        checkpoints.data_ptr(),
        *sequence(grad_reads),
        0 if grad_final is None else grad_final.data_ptr(),
        *sequence(grad_queries),
        *sequence(grad_keys),
        *sequence(grad_values),
        *sequence(grad_erase),
        *sequence(grad_write),
        *sequence(None if decay is None else grad_decay),
        *sequence(None if lookups is None else grad_lookups),
        0 if weights is None else grad_weights.data_ptr(),
    )
    library.call("scan_backward", arguments, keys.dtype)
    return gradients


@scan_backward.register_fake
def _(
    grad_reads: Tensor,
    grad_final: Tensor | None,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor | None,
    decay: Tensor | None,
    lookups: Tensor | None,
    retrieved: Tensor,
    checkpoints: Tensor,
) -> list[Tensor]:
    return _new_gradients(queries, keys, values, erase, write, weights, decay, lookups)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:-1], *output[2:])


def _differentiate(
    ctx: Any, grad_reads: Tensor | None, grad_final: Tensor | None, *_: Tensor | None
) -> tuple[Tensor | None, ...]:
    *inputs, retrieved, checkpoints = ctx.saved_tensors
    if not torch.compiler.is_compiling() and batched(grad_reads, grad_final):
        raise RuntimeError(NO_VMAP)
    if grad_reads is None:
        grad_reads = torch.zeros_like(inputs[2])
    gradients = scan_backward(grad_reads, grad_final, *inputs, retrieved, checkpoints)
    return *(None if x is None else gradient for x, gradient in zip(inputs, gradients, strict=True)), None


def _refuse(ctx: Any, *gradients: Any) -> None:
    raise RuntimeError(NO_SECOND)


scan_forward.register_autograd(_differentiate, setup_context=_save)
scan_backward.register_autograd(_refuse)
