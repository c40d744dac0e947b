"""The C++ kernel (csrc/) behind torch.library custom operators: forward step by step, backward in chunks.

The forward saves what every step retrieved and the weights every KEEP_EVERY steps, never the weights of every step; the
backward computes the rest again from there. Results do not depend on the number of threads, bit for bit.
"""

from typing import Any

import torch
from torch import Tensor

from fastweights import native_library
from fastweights.native_library import ABSENT, ELEMENT_BYTES, rows, sequence
from fastweights.result_memory import empty, empty_like
from fastweights.shapes import Keys, Queries, Strengths, Values, Weights

KEEP_EVERY = 128
"""Steps between two kept states: 64 × 64 weights then cost half as much memory as their values."""


def unavailable() -> str | None:
    """Why this backend cannot run here at all; None if it can."""
    return native_library.unavailable()


def cannot_serve(device: torch.device, dtype: torch.dtype) -> str | None:
    """Why this backend cannot serve tensors of this kind; None if it can."""
    if device.type != "cpu":
        return f"it runs on the CPU only, got tensors on {device}"
    if torch.promote_types(dtype, torch.float32) not in ELEMENT_BYTES:
        return f"it computes in float32 and float64, got {dtype}"
    return None


def scan(
    queries: Queries,
    keys: Keys,
    values: Values,
    erase: Strengths,
    write: Strengths,
    weights: Weights,
    decay: Strengths | None,
) -> tuple[Values, Weights]:
    """W_t = g_t W_{t-1} (I - a_t k_t k_tᵀ) + b_t v_t k_tᵀ,   y_t = W_t q_t."""
    inputs = (queries, keys, values, erase, write, weights, decay)
    keep = torch.is_grad_enabled() and any(x is not None and x.requires_grad for x in inputs)
    # Half the time of a single step would otherwise go into the dispatcher.
    if not keep and not native_library.needs_dispatcher(inputs):
        return _launch_forward(*inputs, None, None)
    reads, final, _, _ = scan_forward(*inputs, keep)
    return reads, final


def _launch_forward(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor,
    decay: Tensor | None,
    retrieved: Tensor | None,
    kept: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """Reads and final weights; retrieved values and kept states are filled if given."""
    reads, final = empty_like(values), torch.empty_like(weights, memory_format=torch.contiguous_format)
    if 0 in weights.shape:
        reads.zero_()
    queries, keys, values, weights = rows(queries), rows(keys), rows(values), weights.contiguous()
    numbers = (
        *_shape(keys, values),
        *sequence(queries),
        *sequence(keys),
        *sequence(values),
        *sequence(erase),
        *sequence(write),
        *sequence(decay),
        0,
        *ABSENT,
        weights.data_ptr(),
        *sequence(reads),
        final.data_ptr(),
        0 if retrieved is None else retrieved.data_ptr(),
        0 if kept is None else kept.data_ptr(),
    )
    native_library.call(native_library.load().fastweights_scan_forward, numbers, keys.dtype)
    return reads, final


def _shape(keys: Tensor, values: Tensor) -> tuple[int, int, int, int, int, int]:
    return (*keys.shape, values.shape[-1], KEEP_EVERY)


def _new_memory(keys: Tensor, values: Tensor, keep: bool) -> tuple[Tensor, Tensor]:
    """What the backward pass needs, retrieved values and kept states; empty if it will not come."""
    batch, heads, steps, key_dim = keys.shape
    value_dim = values.shape[-1]
    # Those strictly inside the sequence: the first state is an input, the last one a result.
    inside = max(steps - 1, 0) // KEEP_EVERY
    return (
        empty((batch, heads, steps, value_dim) if keep else (0,), values),
        empty((batch, heads, inside, value_dim, key_dim) if keep else (0,), values),
    )


@torch.library.custom_op("fastweights::scan_forward", mutates_args=())
def scan_forward(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor,
    decay: Tensor | None,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Reads, final weights, retrieved values and kept states; the last two are empty unless `keep`."""
    retrieved, kept = _new_memory(keys, values, keep)
    filled = (retrieved, kept) if keep else (None, None)
    reads, final = _launch_forward(queries, keys, values, erase, write, weights, decay, *filled)
    return reads, final, retrieved, kept


@scan_forward.register_fake
def _(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor,
    decay: Tensor | None,
    keep: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    final = torch.empty_like(weights, memory_format=torch.contiguous_format)
    return empty_like(values), final, *_new_memory(keys, values, keep)


def _new_gradients(
    queries: Tensor, keys: Tensor, values: Tensor, erase: Tensor, write: Tensor, weights: Tensor, decay: Tensor | None
) -> list[Tensor]:
    """One gradient for each input, laid out like it; an empty one for an absent decay."""
    gradients = [empty_like(x) for x in (queries, keys, values)] + [torch.empty_like(x) for x in (erase, write)]
    gradients.append(torch.empty_like(weights, memory_format=torch.contiguous_format))
    gradients.append(erase.new_empty(0) if decay is None else torch.empty_like(decay))
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
    weights: Tensor,
    decay: Tensor | None,
    retrieved: Tensor,
    kept: Tensor,
) -> list[Tensor]:
    """Gradients of queries, keys, values, erase, write, weights and decay."""
    gradients = _new_gradients(queries, keys, values, erase, write, weights, decay)
    if 0 in weights.shape:
        for gradient in gradients:
            gradient.zero_()
    queries, keys, values, grad_reads = rows(queries), rows(keys), rows(values), rows(grad_reads)
    weights = weights.contiguous()
    grad_final = None if grad_final is None else grad_final.contiguous()
    grad_queries, grad_keys, grad_values, grad_erase, grad_write, grad_weights, grad_decay = gradients
    numbers = (
        *_shape(keys, values),
        *sequence(queries),
        *sequence(keys),
        *sequence(values),
        *sequence(erase),
        *sequence(write),
        *sequence(decay),
        0,
        *ABSENT,
        weights.data_ptr(),
        retrieved.data_ptr(),
        kept.data_ptr(),
        *sequence(grad_reads),
        0 if grad_final is None else grad_final.data_ptr(),
        *sequence(grad_queries),
        *sequence(grad_keys),
        *sequence(grad_values),
        *sequence(grad_erase),
        *sequence(grad_write),
        *sequence(None if decay is None else grad_decay),
        *ABSENT,
        grad_weights.data_ptr(),
    )
    native_library.call(native_library.load().fastweights_scan_backward, numbers, keys.dtype)
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
    weights: Tensor,
    decay: Tensor | None,
    retrieved: Tensor,
    kept: Tensor,
) -> list[Tensor]:
    return _new_gradients(queries, keys, values, erase, write, weights, decay)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs[:-1], *output[2:])


def _differentiate(
    ctx: Any, grad_reads: Tensor | None, grad_final: Tensor | None, *_: Tensor | None
) -> tuple[Tensor | None, ...]:
    *inputs, retrieved, kept = ctx.saved_tensors
    values, decay = inputs[2], inputs[6]
    if grad_reads is None:
        grad_reads = torch.zeros_like(values)
    *gradients, grad_decay = scan_backward(grad_reads, grad_final, *inputs, retrieved, kept)
    return *gradients, None if decay is None else grad_decay, None


def _refuse(ctx: Any, *gradients: Any) -> None:
    raise RuntimeError("the native backend has no second derivative; possible: backend='recurrent', which has them all")


scan_forward.register_autograd(_differentiate, setup_context=_save)
scan_backward.register_autograd(_refuse)
