"""A single step without gradients, as in generation: W' = g W (I - a k kᵀ) + b v kᵀ and y = W' q in one kernel."""

import torch
import triton
import triton.language as tl
from torch import Tensor

from fastweights.kernels.triton.configuration import choose
from fastweights.kernels.triton.launch import launch
from fastweights.kernels.triton.tiles import load_column, load_tile, store_tile


@triton.jit
def step_kernel(
    queries, keys, values, erase, write, decay, weights, reads, final,
    queries_by, keys_by, values_by, erase_by, write_by, decay_by, weights_by,
    heads, key_dim, value_dim,
    DECAYS: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,
):  # fmt: skip
    """With r = W k:  u = b v - a g r,   W' = g W + u kᵀ,   y = g W q + (k·q) u, for a block of rows of W."""
    n, first = tl.program_id(0).to(tl.int64), tl.program_id(1) * BLOCK_V
    batch, head = n // heads, n % heads
    queries += batch * queries_by[0] + head * queries_by[1]
    keys += batch * keys_by[0] + head * keys_by[1]
    weights += batch * weights_by[0] + head * weights_by[1]
    retrieved, y, overlap = tl.zeros((BLOCK_V,), tl.float32), tl.zeros((BLOCK_V,), tl.float32), 0.0
    for start in range(0, key_dim, BLOCK_K):
        w = load_tile(weights, first, start, weights_by[2], weights_by[3], value_dim, key_dim, BLOCK_V, BLOCK_K)
        k = load_column(keys, start, keys_by[3], key_dim, 0.0, BLOCK_K)
        q = load_column(queries, start, queries_by[3], key_dim, 0.0, BLOCK_K)
        retrieved += tl.sum(w * k[None, :], 1)
        y += tl.sum(w * q[None, :], 1)
        overlap += tl.sum(k * q, 0)
    a = tl.load(erase + batch * erase_by[0] + head * erase_by[1]).to(tl.float32)
    b = tl.load(write + batch * write_by[0] + head * write_by[1]).to(tl.float32)
    g = 1.0
    if DECAYS:
        g = tl.load(decay + batch * decay_by[0] + head * decay_by[1]).to(tl.float32)
    v = load_column(values + batch * values_by[0] + head * values_by[1], first, values_by[3], value_dim, 0.0, BLOCK_V)
    u = b * v - a * (g * retrieved)
    rows = first + tl.arange(0, BLOCK_V)
    y = (g * y + overlap * u).to(reads.dtype.element_ty)
    tl.store(reads + n * value_dim + rows, y, mask=rows < value_dim)
    final += n * value_dim * key_dim
    for start in range(0, key_dim, BLOCK_K):
        w = load_tile(weights, first, start, weights_by[2], weights_by[3], value_dim, key_dim, BLOCK_V, BLOCK_K)
        k = load_column(keys, start, keys_by[3], key_dim, 0.0, BLOCK_K)
        written = g * w + u[:, None] * k[None, :]
        store_tile(final, written, first, start, key_dim, 1, value_dim, key_dim, BLOCK_V, BLOCK_K)


@torch.library.custom_op("fastweights::triton_step", mutates_args=())
def step(
    queries: Tensor, keys: Tensor, values: Tensor, erase: Tensor, write: Tensor, weights: Tensor, decay: Tensor | None
) -> tuple[Tensor, Tensor]:
    """The read and the weights after one step."""
    batch, heads, _, key_dim = keys.shape
    value_dim = values.shape[3]
    reads = torch.empty_like(values, memory_format=torch.contiguous_format)
    final = torch.empty_like(weights, memory_format=torch.contiguous_format)
    if 0 in (batch, heads, key_dim, value_dim):
        return reads.zero_(), final.copy_(weights)
    tensors = {"queries": queries, "keys": keys, "values": values, "erase": erase, "write": write, "weights": weights}
    tensors |= {"decay": erase if decay is None else decay, "reads": reads, "final": final}
    chosen = choose(keys.dtype, key_dim, value_dim)
    sizes = {"heads": heads, "key_dim": key_dim, "value_dim": value_dim, "DECAYS": decay is not None}
    launch(step_kernel, (batch * heads, -(-value_dim // chosen.block_v)), chosen, tensors, **sizes)
    return reads, final


@step.register_fake
def _(
    queries: Tensor, keys: Tensor, values: Tensor, erase: Tensor, write: Tensor, weights: Tensor, decay: Tensor | None
) -> tuple[Tensor, Tensor]:
    reads = torch.empty_like(values, memory_format=torch.contiguous_format)
    return reads, torch.empty_like(weights, memory_format=torch.contiguous_format)
