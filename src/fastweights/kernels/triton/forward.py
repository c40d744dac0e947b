"""The forward pass in chunks of C steps: inverses of all chunks, their states one after the other, all reads.

Notation and derivation are in docs/math.md#chunks: (I + L) U = B V - A Γ K S₀, Y = Γ Q S₀ + P U, S_C = Γ_C S₀ + Kᵀ T U.
A program has one chunk, or one block of columns of S = Wᵀ for all chunks; loops over blocks of k make any k possible.
Sums over the steps of a chunk are EXACT: a step corrects what those before it wrote, so that their terms cancel.
"""

import triton
import triton.language as tl

from fastweights.kernels.triton.tiles import (
    between,
    cumulative_logs,
    invert,
    last_of,
    load_column,
    load_tile,
    multiply,
    store_tile,
)


@triton.jit
def inverse_kernel(
    keys, erase, decay, inverses,
    keys_by, erase_by, decay_by,
    heads, steps, chunks, key_dim,
    DECAYS: tl.constexpr, C: tl.constexpr, LEVELS: tl.constexpr, BLOCK_K: tl.constexpr,
    PRECISION: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """(I + L)⁻¹ of every chunk, L = strictly lower part of A (K Kᵀ ∘ D)."""
    chunk, n = tl.program_id(0) % chunks, (tl.program_id(0) // chunks).to(tl.int64)
    batch, head, inner = n // heads, n % heads, tl.arange(0, C)
    first = chunk * C
    keys += batch * keys_by[0] + head * keys_by[1]
    overlaps = tl.zeros((C, C), tl.float32)
    for start in range(0, key_dim, BLOCK_K):
        k = load_tile(keys, first, start, keys_by[2], keys_by[3], steps, key_dim, C, BLOCK_K)
        overlaps += multiply(k, tl.trans(k), PRECISION)
    a = load_column(erase + batch * erase_by[0] + head * erase_by[1], first, erase_by[2], steps, 0.0, C)
    earlier = inner[:, None] > inner[None, :]
    if DECAYS:
        g = load_column(decay + batch * decay_by[0] + head * decay_by[1], first, decay_by[2], steps, 1.0, C)
        high, low, _, _ = cumulative_logs(g)
        overlaps *= between(high, low, high, low, earlier)
    inverse = invert(tl.where(earlier, a[:, None] * overlaps, 0.0), C, LEVELS, EXACT)
    store_tile(inverses + (n * chunks + chunk) * C * C, inverse, 0, 0, C, 1, C, C, C, C)


@triton.jit
def states_kernel(
    keys, values, erase, write, decay, inverses, corrections, states,
    keys_by, values_by, erase_by, write_by, decay_by,
    heads, steps, chunks, key_dim, value_dim,
    DECAYS: tl.constexpr, C: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr, WHOLE: tl.constexpr,
    PRECISION: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """U and S of every chunk in turn, for a block of columns; `states` comes with the first and gets all others.

    With WHOLE one block holds all of k and S stays in registers; otherwise it passes through the cache.
    """
    n, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    batch, head = n // heads, n % heads
    column = block * BLOCK_V
    keys += batch * keys_by[0] + head * keys_by[1]
    values += batch * values_by[0] + head * values_by[1]
    erase += batch * erase_by[0] + head * erase_by[1]
    write += batch * write_by[0] + head * write_by[1]
    inverses += n * chunks * C * C
    corrections += n * steps * value_dim
    state_size = key_dim * value_dim
    states += n * (chunks + 1) * state_size
    state = load_tile(states, 0, column, 1, key_dim, key_dim, value_dim, BLOCK_K, BLOCK_V)
    for chunk in range(chunks):
        first = chunk * C
        k = load_tile(keys, first, 0, keys_by[2], keys_by[3], steps, key_dim, C, BLOCK_K)
        retrieved = multiply(k, state, PRECISION)
        if not WHOLE:
            for start in range(BLOCK_K, key_dim, BLOCK_K):
                k = load_tile(keys, first, start, keys_by[2], keys_by[3], steps, key_dim, C, BLOCK_K)
                part = load_tile(states, start, column, 1, key_dim, key_dim, value_dim, BLOCK_K, BLOCK_V)
                retrieved += multiply(k, part, PRECISION)
        v = load_tile(values, first, column, values_by[2], values_by[3], steps, value_dim, C, BLOCK_V)
        a = load_column(erase, first, erase_by[2], steps, 0.0, C)
        b = load_column(write, first, write_by[2], steps, 0.0, C)
        whole = 1.0
        if DECAYS:
            g = load_column(decay + batch * decay_by[0] + head * decay_by[1], first, decay_by[2], steps, 1.0, C)
            high, low, _, _ = cumulative_logs(g)
            a *= tl.exp(high)
            end = last_of(high, C)
            whole = tl.exp(end)
        inverse = load_tile(inverses, 0, 0, C, 1, C, C, C, C)
        u = multiply(inverse, b[:, None] * v - a[:, None] * retrieved, EXACT)
        store_tile(corrections, u, first, column, value_dim, 1, steps, value_dim, C, BLOCK_V)
        if DECAYS:
            u *= tl.exp((end - high) + (last_of(low, C) - low))[:, None]
        if WHOLE:
            state = whole * state + multiply(tl.trans(k), u, EXACT)
            store_tile(states + state_size, state, 0, column, 1, key_dim, key_dim, value_dim, BLOCK_K, BLOCK_V)
        else:
            for start in range(0, key_dim, BLOCK_K):
                k = load_tile(keys, first, start, keys_by[2], keys_by[3], steps, key_dim, C, BLOCK_K)
                part = load_tile(states, start, column, 1, key_dim, key_dim, value_dim, BLOCK_K, BLOCK_V)
                part = whole * part + multiply(tl.trans(k), u, EXACT)
                store_tile(states + state_size, part, start, column, 1, key_dim, key_dim, value_dim, BLOCK_K, BLOCK_V)
            tl.debug_barrier()  # other threads of this program read what these have written
            state = load_tile(states + state_size, 0, column, 1, key_dim, key_dim, value_dim, BLOCK_K, BLOCK_V)
        inverses += C * C
        states += state_size


@triton.jit
def reads_kernel(
    queries, keys, decay, corrections, states, reads,
    queries_by, keys_by, decay_by,
    heads, steps, chunks, key_dim, value_dim,
    DECAYS: tl.constexpr, C: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,
    PRECISION: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Y = Γ Q S₀ + P U of one chunk and a block of columns."""
    chunk, n, block = tl.program_id(0) % chunks, (tl.program_id(0) // chunks).to(tl.int64), tl.program_id(1)
    batch, head, inner = n // heads, n % heads, tl.arange(0, C)
    first, column = chunk * C, block * BLOCK_V
    queries += batch * queries_by[0] + head * queries_by[1]
    keys += batch * keys_by[0] + head * keys_by[1]
    states += (n * (chunks + 1) + chunk) * key_dim * value_dim
    attention, started = tl.zeros((C, C), tl.float32), tl.zeros((C, BLOCK_V), tl.float32)
    for start in range(0, key_dim, BLOCK_K):
        q = load_tile(queries, first, start, queries_by[2], queries_by[3], steps, key_dim, C, BLOCK_K)
        k = load_tile(keys, first, start, keys_by[2], keys_by[3], steps, key_dim, C, BLOCK_K)
        state = load_tile(states, start, column, 1, key_dim, key_dim, value_dim, BLOCK_K, BLOCK_V)
        attention += multiply(q, tl.trans(k), PRECISION)
        started += multiply(q, state, PRECISION)
    if DECAYS:
        g = load_column(decay + batch * decay_by[0] + head * decay_by[1], first, decay_by[2], steps, 1.0, C)
        high, low, _, _ = cumulative_logs(g)
        attention *= between(high, low, high, low, inner[:, None] >= inner[None, :])
        started *= tl.exp(high)[:, None]
    else:
        attention = tl.where(inner[:, None] >= inner[None, :], attention, 0.0)
    u = load_tile(corrections + n * steps * value_dim, first, column, value_dim, 1, steps, value_dim, C, BLOCK_V)
    y = started + multiply(attention, u, EXACT)
    store_tile(reads + n * steps * value_dim, y, first, column, value_dim, 1, steps, value_dim, C, BLOCK_V)
