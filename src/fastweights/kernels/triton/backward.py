"""The backward pass in chunks: what reads ask of U, the gradients of all states in turn, then everything else at once.

Notation and derivation are in docs/math.md#chunks. The state gradient of a chunk is that of the state after it.
"""

import triton
import triton.language as tl

from fastweights.kernels.triton.tiles import (
    between,
    cumulative_logs,
    last_of,
    load_column,
    load_tile,
    multiply,
    store_column,
    store_tile,
)


@triton.jit
def asked_kernel(
    queries, keys, decay, d_reads, d_targets,
    queries_by, keys_by, decay_by, d_reads_by,
    heads, steps, chunks, key_dim, value_dim,
    DECAYS: tl.constexpr, C: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,
    PRECISION: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """Pᵀ dY of one chunk and a block of columns: the part of dU that comes from the chunk's own reads."""
    chunk, n, block = tl.program_id(0) % chunks, (tl.program_id(0) // chunks).to(tl.int64), tl.program_id(1)
    batch, head, inner = n // heads, n % heads, tl.arange(0, C)
    first, column = chunk * C, block * BLOCK_V
    queries += batch * queries_by[0] + head * queries_by[1]
    keys += batch * keys_by[0] + head * keys_by[1]
    attention = tl.zeros((C, C), tl.float32)
    for start in range(0, key_dim, BLOCK_K):
        q = load_tile(queries, first, start, queries_by[2], queries_by[3], steps, key_dim, C, BLOCK_K)
        k = load_tile(keys, first, start, keys_by[2], keys_by[3], steps, key_dim, C, BLOCK_K)
        attention += multiply(q, tl.trans(k), PRECISION)
    if DECAYS:
        g = load_column(decay + batch * decay_by[0] + head * decay_by[1], first, decay_by[2], steps, 1.0, C)
        high, low, _, _ = cumulative_logs(g)
        attention *= between(high, low, high, low, inner[:, None] >= inner[None, :])
    else:
        attention = tl.where(inner[:, None] >= inner[None, :], attention, 0.0)
    d_reads += batch * d_reads_by[0] + head * d_reads_by[1]
    dy = load_tile(d_reads, first, column, d_reads_by[2], d_reads_by[3], steps, value_dim, C, BLOCK_V)
    du = multiply(tl.trans(attention), dy, EXACT)
    store_tile(d_targets + n * steps * value_dim, du, first, column, value_dim, 1, steps, value_dim, C, BLOCK_V)


@triton.jit
def state_gradients_kernel(
    queries, keys, erase, decay, d_reads, inverses, d_targets, d_states,
    queries_by, keys_by, erase_by, decay_by, d_reads_by,
    heads, steps, chunks, key_dim, value_dim,
    DECAYS: tl.constexpr, C: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr, WHOLE: tl.constexpr,
    PRECISION: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """dR = (I + L)⁻ᵀ (Pᵀ dY + T K dS_C) and dS₀ = Γ_C dS_C + Qᵀ Γ dY - Kᵀ A Γ dR, the last chunk first.

    `d_targets` comes with Pᵀ dY and gets dR; `d_states` comes with the last gradient and gets all others.
    """
    n, block = tl.program_id(0).to(tl.int64), tl.program_id(1)
    batch, head = n // heads, n % heads
    column = block * BLOCK_V
    queries += batch * queries_by[0] + head * queries_by[1]
    keys += batch * keys_by[0] + head * keys_by[1]
    erase += batch * erase_by[0] + head * erase_by[1]
    d_reads += batch * d_reads_by[0] + head * d_reads_by[1]
    d_targets += n * steps * value_dim
    state_size = key_dim * value_dim
    d_states += (n * (chunks + 1) + chunks) * state_size
    inverses += (n * chunks + chunks - 1) * C * C
    d_state = load_tile(d_states, 0, column, 1, key_dim, key_dim, value_dim, BLOCK_K, BLOCK_V)
    for back in range(chunks):
        first = (chunks - 1 - back) * C
        k = load_tile(keys, first, 0, keys_by[2], keys_by[3], steps, key_dim, C, BLOCK_K)
        ended = multiply(k, d_state, PRECISION)
        if not WHOLE:
            for start in range(BLOCK_K, key_dim, BLOCK_K):
                k = load_tile(keys, first, start, keys_by[2], keys_by[3], steps, key_dim, C, BLOCK_K)
                part = load_tile(d_states, start, column, 1, key_dim, key_dim, value_dim, BLOCK_K, BLOCK_V)
                ended += multiply(k, part, PRECISION)
        a = load_column(erase, first, erase_by[2], steps, 0.0, C)
        dy = load_tile(d_reads, first, column, d_reads_by[2], d_reads_by[3], steps, value_dim, C, BLOCK_V)
        whole = 1.0
        if DECAYS:
            g = load_column(decay + batch * decay_by[0] + head * decay_by[1], first, decay_by[2], steps, 1.0, C)
            high, low, _, _ = cumulative_logs(g)
            since_start, end = tl.exp(high), last_of(high, C)
            ended *= tl.exp((end - high) + (last_of(low, C) - low))[:, None]
            a, dy, whole = a * since_start, dy * since_start[:, None], tl.exp(end)
        inverse = load_tile(inverses, 0, 0, C, 1, C, C, C, C)
        du = ended + load_tile(d_targets, first, column, value_dim, 1, steps, value_dim, C, BLOCK_V)
        dr = multiply(tl.trans(inverse), du, EXACT)
        store_tile(d_targets, dr, first, column, value_dim, 1, steps, value_dim, C, BLOCK_V)
        dr *= -a[:, None]
        if WHOLE:
            q = load_tile(queries, first, 0, queries_by[2], queries_by[3], steps, key_dim, C, BLOCK_K)
            d_state = whole * d_state + multiply(tl.trans(q), dy, PRECISION)
            d_state += multiply(tl.trans(k), dr, EXACT)
            store_tile(d_states - state_size, d_state, 0, column, 1, key_dim, key_dim, value_dim, BLOCK_K, BLOCK_V)
        else:
            for start in range(0, key_dim, BLOCK_K):
                q = load_tile(queries, first, start, queries_by[2], queries_by[3], steps, key_dim, C, BLOCK_K)
                k = load_tile(keys, first, start, keys_by[2], keys_by[3], steps, key_dim, C, BLOCK_K)
                part = load_tile(d_states, start, column, 1, key_dim, key_dim, value_dim, BLOCK_K, BLOCK_V)
                part = whole * part + multiply(tl.trans(q), dy, PRECISION)
                part += multiply(tl.trans(k), dr, EXACT)
                store_tile(d_states - state_size, part, start, column, 1, key_dim, key_dim, value_dim, BLOCK_K, BLOCK_V)
            tl.debug_barrier()  # other threads of this program read what these have written
            d_state = load_tile(d_states - state_size, 0, column, 1, key_dim, key_dim, value_dim, BLOCK_K, BLOCK_V)
        inverses -= C * C
        d_states -= state_size


@triton.jit
def pairs_kernel(
    queries, keys, values, erase, write, decay, d_reads, corrections, d_targets,
    d_attention, d_overlaps, d_values, d_erase, d_write, d_decay,
    queries_by, keys_by, values_by, erase_by, write_by, decay_by, d_reads_by,
    heads, steps, chunks, key_dim, value_dim,
    DECAYS: tl.constexpr, C: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,
    PRECISION: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """What belongs to pairs of steps of one chunk: dP ∘ D, N = A (dL ∘ D), dV, db and the first parts of da and dg."""
    chunk, n = tl.program_id(0) % chunks, (tl.program_id(0) // chunks).to(tl.int64)
    batch, head, inner = n // heads, n % heads, tl.arange(0, C)
    first, size = chunk * C, steps * value_dim
    values += batch * values_by[0] + head * values_by[1]
    d_reads += batch * d_reads_by[0] + head * d_reads_by[1]
    a = load_column(erase + batch * erase_by[0] + head * erase_by[1], first, erase_by[2], steps, 0.0, C)
    b = load_column(write + batch * write_by[0] + head * write_by[1], first, write_by[2], steps, 0.0, C)
    dp, dl, db = tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32), tl.zeros((C,), tl.float32)
    for start in range(0, value_dim, BLOCK_V):
        dr = load_tile(d_targets + n * size, first, start, value_dim, 1, steps, value_dim, C, BLOCK_V)
        v = load_tile(values, first, start, values_by[2], values_by[3], steps, value_dim, C, BLOCK_V)
        db += tl.sum(v * dr, 1)
        store_tile(d_values + n * size, b[:, None] * dr, first, start, value_dim, 1, steps, value_dim, C, BLOCK_V)
        u = load_tile(corrections + n * size, first, start, value_dim, 1, steps, value_dim, C, BLOCK_V)
        dl -= multiply(dr, tl.trans(u), EXACT)
        dy = load_tile(d_reads, first, start, d_reads_by[2], d_reads_by[3], steps, value_dim, C, BLOCK_V)
        dp += multiply(dy, tl.trans(u), EXACT)
    until_now, earlier = inner[:, None] >= inner[None, :], inner[:, None] > inner[None, :]
    dp, dl = tl.where(until_now, dp, 0.0), tl.where(earlier, dl, 0.0)
    queries += batch * queries_by[0] + head * queries_by[1]
    keys += batch * keys_by[0] + head * keys_by[1]
    overlaps, attention = tl.zeros((C, C), tl.float32), tl.zeros((C, C), tl.float32)
    for start in range(0, key_dim, BLOCK_K):
        k = load_tile(keys, first, start, keys_by[2], keys_by[3], steps, key_dim, C, BLOCK_K)
        overlaps += multiply(k, tl.trans(k), PRECISION)
        if DECAYS:
            q = load_tile(queries, first, start, queries_by[2], queries_by[3], steps, key_dim, C, BLOCK_K)
            attention += multiply(q, tl.trans(k), PRECISION)
    if DECAYS:
        g = load_column(decay + batch * decay_by[0] + head * decay_by[1], first, decay_by[2], steps, 1.0, C)
        high, low, before_high, before_low = cumulative_logs(g)
        aged = between(high, low, high, low, until_now)
        d_aged = dp * attention + a[:, None] * dl * overlaps
        passing = multiply(tl.trans(aged), d_aged, EXACT)
        dg = tl.sum(between(before_high, before_low, high, low, earlier) * passing, 1)
        store_column(d_decay + n * steps, dg, first, steps, C)
        dp, dl = dp * aged, dl * aged
    store_column(d_erase + n * steps, tl.sum(dl * overlaps, 1), first, steps, C)
    store_column(d_write + n * steps, db, first, steps, C)
    square = (n * chunks + chunk) * C * C
    store_tile(d_attention + square, dp, 0, 0, C, 1, C, C, C, C)
    store_tile(d_overlaps + square, a[:, None] * dl, 0, 0, C, 1, C, C, C, C)


@triton.jit
def features_kernel(
    queries, keys, erase, decay, d_reads, corrections, d_targets, states, d_states, d_attention, d_overlaps,
    d_queries, d_keys, erased, read, ended, kept,
    queries_by, keys_by, erase_by, decay_by, d_reads_by,
    heads, steps, chunks, key_dim, value_dim, rows_of_all,
    DECAYS: tl.constexpr, C: tl.constexpr, BLOCK_K: tl.constexpr, BLOCK_V: tl.constexpr,
    PRECISION: tl.constexpr, EXACT: tl.constexpr,
):  # fmt: skip
    """dQ = Γ dY S₀ᵀ + (dP ∘ D) K and dK = (dP ∘ D)ᵀ Q + (N + Nᵀ) K - A Γ dR S₀ᵀ + T U dS_Cᵀ for a block of k.

    This block's share of the row sums of K S₀ ∘ dR, Q S₀ ∘ dY and K dS_C ∘ U, and of the sum of S₀ ∘ dS_C, goes to
    `erased`, `read`, `ended` and `kept`.
    """
    chunk, n, block = tl.program_id(0) % chunks, (tl.program_id(0) // chunks).to(tl.int64), tl.program_id(1)
    batch, head = n // heads, n % heads
    first, feature, size = chunk * C, block * BLOCK_K, steps * value_dim
    queries += batch * queries_by[0] + head * queries_by[1]
    keys += batch * keys_by[0] + head * keys_by[1]
    d_reads += batch * d_reads_by[0] + head * d_reads_by[1]
    states += (n * (chunks + 1) + chunk) * key_dim * value_dim
    d_states += (n * (chunks + 1) + chunk + 1) * key_dim * value_dim
    dy_state = tl.zeros((C, BLOCK_K), tl.float32)
    dr_state, u_d_state, both = dy_state, dy_state, 0.0
    for start in range(0, value_dim, BLOCK_V):
        state = load_tile(states, start, feature, key_dim, 1, value_dim, key_dim, BLOCK_V, BLOCK_K)
        dy = load_tile(d_reads, first, start, d_reads_by[2], d_reads_by[3], steps, value_dim, C, BLOCK_V)
        dy_state += multiply(dy, state, PRECISION)
        dr = load_tile(d_targets + n * size, first, start, value_dim, 1, steps, value_dim, C, BLOCK_V)
        dr_state += multiply(dr, state, PRECISION)
        u = load_tile(corrections + n * size, first, start, value_dim, 1, steps, value_dim, C, BLOCK_V)
        d_state = load_tile(d_states, start, feature, key_dim, 1, value_dim, key_dim, BLOCK_V, BLOCK_K)
        u_d_state += multiply(u, d_state, PRECISION)
        if DECAYS:
            both += tl.sum(tl.sum(state * d_state, 1), 0)
    q = load_tile(queries, first, feature, queries_by[2], queries_by[3], steps, key_dim, C, BLOCK_K)
    k = load_tile(keys, first, feature, keys_by[2], keys_by[3], steps, key_dim, C, BLOCK_K)
    place = block.to(tl.int64) * rows_of_all + n * steps
    store_column(erased + place, tl.sum(k * dr_state, 1), first, steps, C)
    a = load_column(erase + batch * erase_by[0] + head * erase_by[1], first, erase_by[2], steps, 0.0, C)
    if DECAYS:
        store_column(read + place, tl.sum(q * dy_state, 1), first, steps, C)
        store_column(ended + place, tl.sum(k * u_d_state, 1), first, steps, C)
        tl.store(kept + (block * (rows_of_all // steps) + n) * chunks + chunk, both)
        g = load_column(decay + batch * decay_by[0] + head * decay_by[1], first, decay_by[2], steps, 1.0, C)
        high, low, _, _ = cumulative_logs(g)
        since_start = tl.exp(high)
        dy_state, dr_state = since_start[:, None] * dy_state, since_start[:, None] * dr_state
        u_d_state *= tl.exp((last_of(high, C) - high) + (last_of(low, C) - low))[:, None]
    dk = u_d_state - a[:, None] * dr_state
    square = (n * chunks + chunk) * C * C
    dp = load_tile(d_attention + square, 0, 0, C, 1, C, C, C, C)
    dq = dy_state + multiply(dp, k, EXACT)
    store_tile(d_queries + n * steps * key_dim, dq, first, feature, key_dim, 1, steps, key_dim, C, BLOCK_K)
    dk += multiply(tl.trans(dp), q, EXACT)
    dx = load_tile(d_overlaps + square, 0, 0, C, 1, C, C, C, C)
    dk += multiply(dx + tl.trans(dx), k, EXACT)
    store_tile(d_keys + n * steps * key_dim, dk, first, feature, key_dim, 1, steps, key_dim, C, BLOCK_K)


@triton.jit
def coefficients_kernel(
    erase, decay, erased, read, ended, kept, d_erase, d_decay,
    erase_by, decay_by,
    heads, steps, chunks, blocks, rows_of_all,
    C: tl.constexpr,
):  # fmt: skip
    """The rest of da and of dg: what passes a step from the chunk's start, or on to its end."""
    chunk, n = tl.program_id(0) % chunks, (tl.program_id(0) // chunks).to(tl.int64)
    batch, head, inner = n // heads, n % heads, tl.arange(0, C)
    first, place = chunk * C, n * steps
    a = load_column(erase + batch * erase_by[0] + head * erase_by[1], first, erase_by[2], steps, 0.0, C)
    g = load_column(decay + batch * decay_by[0] + head * decay_by[1], first, decay_by[2], steps, 1.0, C)
    r, y, e, both = tl.zeros((C,), tl.float32), tl.zeros((C,), tl.float32), tl.zeros((C,), tl.float32), 0.0
    for block in range(blocks):
        r += load_column(erased + place, first, 1, steps, 0.0, C)
        y += load_column(read + place, first, 1, steps, 0.0, C)
        e += load_column(ended + place, first, 1, steps, 0.0, C)
        both += tl.load(kept + (block * (rows_of_all // steps) + n) * chunks + chunk)
        place += rows_of_all
    high, low, before_high, before_low = cumulative_logs(g)
    to_end = tl.exp((last_of(high, C) - high) + (last_of(low, C) - low))
    until_now, earlier = inner[:, None] >= inner[None, :], inner[:, None] > inner[None, :]
    aged, aged_before = between(high, low, high, low, until_now), between(before_high, before_low, high, low, earlier)
    passing = tl.sum(aged * (y - a * r)[:, None], 0) + to_end * both
    dg = tl.exp(before_high) * passing + to_end * tl.sum(aged_before * e[None, :], 1)
    dg += load_column(d_decay + n * steps, first, 1, steps, 0.0, C)
    da = load_column(d_erase + n * steps, first, 1, steps, 0.0, C) - tl.exp(high) * r
    store_column(d_decay + n * steps, dg, first, steps, C)
    store_column(d_erase + n * steps, da, first, steps, C)
