"""The operator on a GPU: the kernels of forward.py and backward.py as custom operators of torch."""

from typing import Any

import torch
from torch import Tensor

from fastweights.kernels.transforms import STEP_BY_STEP, batched
from fastweights.kernels.triton import backward, forward
from fastweights.kernels.triton.configuration import Configuration, choose
from fastweights.kernels.triton.launch import launch

NO_SECOND = f"the Triton backend has no second derivatives; {STEP_BY_STEP}"


def run(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor,
    decay: Tensor | None,
) -> tuple[Tensor, Tensor]:
    """All reads and the final weights."""
    reads, final, *_ = triton_scan(queries, keys, values, erase, write, weights, decay)
    return reads, final


class _Sizes:
    """Everything about a scan that is not a tensor."""

    def __init__(self, keys: Tensor, values: Tensor, decays: bool) -> None:
        self.batch, self.heads, self.steps, self.key_dim = keys.shape
        self.value_dim, self.sequences = values.shape[3], self.batch * self.heads
        self.chosen: Configuration = choose(keys.dtype, self.key_dim, self.value_dim)
        self.chunks = -(-self.steps // self.chosen.chunk)
        self.key_blocks = -(-self.key_dim // self.chosen.block_k)
        self.value_blocks = -(-self.value_dim // self.chosen.block_v)
        self.empty = 0 in (self.sequences, self.steps, self.key_dim, self.value_dim)
        self.arguments = {"heads": self.heads, "steps": self.steps, "chunks": self.chunks, "DECAYS": decays}
        self.arguments |= {"key_dim": self.key_dim, "value_dim": self.value_dim, "blocks": self.key_blocks}
        self.arguments |= {"rows_of_all": self.sequences * self.steps, "WHOLE": self.key_blocks == 1}

    def run(self, kernel: Any, tensors: dict[str, Tensor], programs: int, blocks: int = 1) -> None:
        launch(kernel, (programs, blocks), self.chosen, tensors, **self.arguments)


def _saved(keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Buffers for U, for the state at the start of every chunk and after the last, and for the inverses."""
    sizes = _Sizes(keys, values, False)
    shape, chunk = keys.shape[:2], sizes.chosen.chunk
    return (
        keys.new_empty(*shape, sizes.steps, sizes.value_dim, dtype=torch.float32),
        keys.new_empty(*shape, sizes.chunks + 1, sizes.value_dim, sizes.key_dim, dtype=torch.float32),
        keys.new_empty(*shape, sizes.chunks, chunk, chunk, dtype=torch.float32),
    )


@torch.library.custom_op("fastweights::triton_scan", mutates_args=())
def triton_scan(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor,
    decay: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Reads and final weights; U, states and inverses for the backward pass."""
    sizes = _Sizes(keys, values, decay is not None)
    reads = torch.empty_like(values, memory_format=torch.contiguous_format)
    corrections, states, inverses = _saved(keys, values)
    states[:, :, 0] = weights
    if sizes.empty:
        return reads.zero_(), weights.clone(memory_format=torch.contiguous_format), corrections, states, inverses
    tensors = {"queries": queries, "keys": keys, "values": values, "erase": erase, "write": write}
    tensors |= {"decay": erase if decay is None else decay, "reads": reads}
    tensors |= {"corrections": corrections, "states": states, "inverses": inverses}
    chunks = sizes.sequences * sizes.chunks
    sizes.run(forward.inverse_kernel, tensors, chunks)
    sizes.run(forward.states_kernel, tensors, sizes.sequences, sizes.value_blocks)
    sizes.run(forward.reads_kernel, tensors, chunks, sizes.value_blocks)
    return reads, states[:, :, -1].clone(), corrections, states, inverses


@triton_scan.register_fake
def _(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor,
    decay: Tensor | None,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    reads = torch.empty_like(values, memory_format=torch.contiguous_format)
    return reads, torch.empty_like(weights, memory_format=torch.contiguous_format), *_saved(keys, values)


def _new_gradients(*inputs: Tensor | None) -> list[Tensor]:
    """One contiguous gradient for each input; an empty one for an absent input."""
    first = next(x for x in inputs if x is not None)
    return [
        first.new_empty(0) if x is None else torch.empty_like(x, memory_format=torch.contiguous_format) for x in inputs
    ]


@torch.library.custom_op("fastweights::triton_scan_backward", mutates_args=())
def triton_scan_backward(
    d_reads: Tensor | None,
    d_final: Tensor | None,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor,
    decay: Tensor | None,
    corrections: Tensor,
    states: Tensor,
    inverses: Tensor,
) -> list[Tensor]:
    """Gradients of queries, keys, values, erase, write, weights and decay."""
    found = _new_gradients(queries, keys, values, erase, write, weights, decay)
    sizes = _Sizes(keys, values, decay is not None)
    if sizes.empty:
        for gradient in found:
            gradient.zero_()
        if d_final is not None:
            found[5].copy_(d_final)
        return found
    d_states = torch.empty_like(states)
    d_states[:, :, -1] = 0.0 if d_final is None else d_final
    tensors = {"queries": queries, "keys": keys, "values": values, "erase": erase, "write": write}
    tensors |= {"decay": erase if decay is None else decay, "corrections": corrections, "states": states}
    tensors |= {"inverses": inverses, "d_reads": torch.zeros_like(values) if d_reads is None else d_reads}
    tensors |= {"d_targets": torch.empty_like(corrections), "d_states": d_states}
    tensors |= {"d_attention": torch.empty_like(inverses), "d_overlaps": torch.empty_like(inverses)}
    tensors |= {"d_queries": found[0], "d_keys": found[1], "d_values": found[2]}
    rows, chunks = sizes.sequences * sizes.steps, sizes.sequences * sizes.chunks
    shapes = {"d_erase": (rows,), "d_write": (rows,), "d_decay": (rows,), "kept": (sizes.key_blocks, chunks)}
    shapes |= dict.fromkeys(("erased", "read", "ended"), (sizes.key_blocks, rows))
    tensors |= {name: erase.new_empty(shape, dtype=torch.float32) for name, shape in shapes.items()}
    sizes.run(backward.asked_kernel, tensors, chunks, sizes.value_blocks)
    sizes.run(backward.state_gradients_kernel, tensors, sizes.sequences, sizes.value_blocks)
    sizes.run(backward.pairs_kernel, tensors, chunks)
    sizes.run(backward.features_kernel, tensors, chunks, sizes.key_blocks)
    if decay is None:
        tensors["d_erase"] -= tensors["erased"].sum(0)
    else:
        sizes.run(backward.coefficients_kernel, tensors, chunks)
        found[6].copy_(tensors["d_decay"].view_as(decay))
    found[3].copy_(tensors["d_erase"].view_as(erase))
    found[4].copy_(tensors["d_write"].view_as(write))
    found[5].copy_(d_states[:, :, 0])
    return found


@triton_scan_backward.register_fake
def _(
    d_reads: Tensor | None,
    d_final: Tensor | None,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    erase: Tensor,
    write: Tensor,
    weights: Tensor,
    decay: Tensor | None,
    corrections: Tensor,
    states: Tensor,
    inverses: Tensor,
) -> list[Tensor]:
    return _new_gradients(queries, keys, values, erase, write, weights, decay)


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(*inputs, *output[2:])


def _differentiate(
    ctx: Any, d_reads: Tensor | None, d_final: Tensor | None, *_: Tensor | None
) -> tuple[Tensor | None, ...]:
    inputs, saved = ctx.saved_tensors[:7], ctx.saved_tensors[7:]
    if not torch.compiler.is_compiling() and batched(d_reads, d_final):
        raise RuntimeError(f"the Triton backend has no rule for vmap; {STEP_BY_STEP}")
    found = triton_scan_backward(d_reads, d_final, *inputs, *saved)
    return tuple(None if x is None else gradient for x, gradient in zip(inputs, found, strict=True))


def _refuse(ctx: Any, *gradients: Any) -> None:
    raise RuntimeError(NO_SECOND)


triton_scan.register_autograd(_differentiate, setup_context=_save)
triton_scan_backward.register_autograd(_refuse)
