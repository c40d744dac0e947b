"""The rule of Mamba-2, as mamba-ssm calls it: a sum rule whose decay and write strength come from one step size."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad, silu, softplus

from fastweights.functions.arguments import Sizes, check, check_shape, precision_of
from fastweights.functions.time_first import CumulativeLengths, for_value_heads, in_precision, scan
from fastweights.memory import boundaries_of, fast_weight_scan
from fastweights.memory.packing import whole_numbers

NO_LIMIT = (0.0, math.inf)


def mamba_chunk_scan_combined(
    x: Float[Tensor, "b t h p"],
    dt: Float[Tensor, "b t h"],
    A: Float[Tensor, " h"],  # noqa: N803
    B: Float[Tensor, "b t g n"],  # noqa: N803
    C: Float[Tensor, "b t g n"],  # noqa: N803
    chunk_size: int | None = None,
    D: Tensor | None = None,  # noqa: N803
    z: Float[Tensor, "b t h p"] | None = None,
    dt_bias: Float[Tensor, " h"] | None = None,
    initial_states: Float[Tensor, "b h p n"] | None = None,
    seq_idx: Int[Tensor, "b t"] | None = None,
    cu_seqlens: CumulativeLengths | None = None,
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = NO_LIMIT,
    return_final_states: bool = False,
    return_varlen_states: bool = False,
) -> Float[Tensor, "b t h p"] | tuple[Tensor, ...]:
    """W ← exp(A Δ) W + Δ x Bᵀ;  y = W C + D x,  times silu(z) if there is a z.

    Δ is `dt` with its bias, after softplus if asked for, within `dt_limit`. Heads share B and C in groups. Where
    `seq_idx` changes, another sequence begins; with `return_varlen_states` the final states of all of them, which end
    at `cu_seqlens`, are the last result. `chunk_size` has no effect: the operator needs none.
    """
    _check_sequence(x, dt, A, B, C, D, z, dt_bias, initial_states, seq_idx, dt_limit)
    begins = None if seq_idx is None else pad(seq_idx[:, 1:] != seq_idx[:, :-1], (1, 0), value=False)
    _check_lengths(begins, cu_seqlens, initial_states, return_varlen_states)
    dtype, heads = precision_of(x, dt, A, B, C, dt_bias, initial_states), x.shape[2]
    step = _step_sizes(in_precision(dt, dtype), dt_bias, dt_softplus)
    if not (dt_softplus and tuple(dt_limit) == NO_LIMIT):
        step = step.clamp(*dt_limit)
    values = in_precision(x, dtype)
    keys, queries = (for_value_heads(in_precision(shared, dtype), heads) for shared in (B, C))
    decay = (step * A.to(dtype)).exp()
    if begins is not None:
        decay = decay.masked_fill(begins[..., None], 0.0)
    weights = None if initial_states is None else initial_states.to(dtype)
    erase = torch.zeros_like(step)
    reads, final = scan(queries, keys, values, erase, step, decay, weights, cu_seqlens, return_varlen_states)
    if D is not None:
        reads = torch.addcmul(reads, values, (D if D.dim() == 2 else D[:, None]).to(dtype))
    if z is not None:
        reads = reads * silu(z.to(dtype))
    last = (final[-1:] if return_varlen_states else final,) if return_final_states else ()
    every = (final,) if return_varlen_states else ()
    return (reads.to(x.dtype), *last, *every) if last or every else reads.to(x.dtype)


def _check_sequence(
    x: Tensor,
    dt: Tensor,
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    C: Tensor,  # noqa: N803
    D: Tensor | None,  # noqa: N803
    z: Tensor | None,
    dt_bias: Tensor | None,
    initial_states: Tensor | None,
    seq_idx: Tensor | None,
    dt_limit: tuple[float, float],
) -> None:
    sizes: Sizes = {}
    check(sizes, "x", x, "b t h p")
    check(sizes, "dt", dt, "b t h")
    check(sizes, "A", A, "h")
    check(sizes, "B", B, "b t g n")
    check(sizes, "C", C, "b t g n")
    if D is not None:
        check(sizes, "D", D, *(("h p", " or (h)") if D.dim() == 2 else ("h", " or (h, p)")))
    optional = {"z": (z, "b t h p"), "dt_bias": (dt_bias, "h"), "initial_states": (initial_states, "b h p n")}
    for name, (given, letters) in optional.items():
        if given is not None:
            check(sizes, name, given, letters)
    if seq_idx is not None:
        check_shape(sizes, "seq_idx", seq_idx, "b t")
    if not isinstance(dt_limit, Sequence) or len(dt_limit) != 2:
        raise ValueError(f"dt_limit: expected the least and the greatest step size, got {dt_limit}")


def _check_lengths(
    begins: Tensor | None, cu_seqlens: CumulativeLengths | None, initial_states: Tensor | None, wanted: bool
) -> None:
    if not wanted:
        if cu_seqlens is not None:
            raise ValueError("cu_seqlens: expected with return_varlen_states=True only; seq_idx keeps sequences apart")
        return
    if cu_seqlens is None or begins is None or initial_states is not None:
        raise ValueError("return_varlen_states: expected cu_seqlens and seq_idx, and no initial_states")
    ends = whole_numbers(cu_seqlens, "cu_seqlens")
    expected = boundaries_of(ends, begins.shape[1])
    expected[:, :1] = False
    if sorted(set(ends)) != ends or not torch.equal(expected, begins.cpu()):
        raise ValueError(f"cu_seqlens: expected the places where seq_idx changes, got {ends}")


def selective_state_update(
    state: Float[Tensor, "b *h p n"],
    x: Float[Tensor, "b *h p"],
    dt: Float[Tensor, "b *h p"],
    A: Float[Tensor, "*h p n"],  # noqa: N803
    B: Float[Tensor, "b *g n"],  # noqa: N803
    C: Float[Tensor, "b *g n"],  # noqa: N803
    D: Float[Tensor, "*h p"] | None = None,  # noqa: N803
    z: Float[Tensor, "b *h p"] | None = None,
    dt_bias: Float[Tensor, "*h p"] | None = None,
    dt_softplus: bool = False,
) -> Float[Tensor, "b *h p"]:
    """One step of `mamba_chunk_scan_combined`, which writes the new state into `state`.

    In Mamba-2 the step size and A are one number per head, expanded over p and n; in Mamba-1, which has no heads, they
    differ. Both are served. Gradients reach former steps through the state, until it is detached.
    """
    _check_step(state, x, dt, A, B, C, D, z, dt_bias)
    if x.dim() == 2:
        D, z, dt_bias = (None if one is None else one.unsqueeze(-2) for one in (D, z, dt_bias))  # noqa: N806
        B, C, dt, x = (one[:, None] for one in (B, C, dt, x))  # noqa: N806
        return selective_state_update(state[:, None], x, dt, A[None], B, C, D, z, dt_bias, dt_softplus)[:, 0]
    dtype = precision_of(state, x, dt, A, B, C, dt_bias)
    values = in_precision(x, dtype)
    keys, queries = (_one_per_head(in_precision(shared, dtype), x.shape[1]) for shared in (B, C))
    if tied(dt, A, dt_bias):
        step = _step_sizes(dt[..., 0].to(dtype), None if dt_bias is None else dt_bias[..., 0], dt_softplus)
        decay = (step * A[:, 0, 0].to(dtype)).exp()
        rows = values[:, :, None]
    else:  # every channel is a head with a single value, whose decay is per key
        step = _step_sizes(dt.to(dtype), dt_bias, dt_softplus).flatten(1)
        decay = (step[..., None] * A.flatten(0, 1).to(dtype)).exp()
        keys, queries = (shared.repeat_interleave(x.shape[2], dim=1) for shared in (keys, queries))
        rows = values.flatten(1)[:, :, None, None]
    # The backward pass needs the state as it was.
    needed = torch.is_grad_enabled() and any(one.requires_grad for one in (state, decay, keys, queries, rows))
    before = state.clone() if needed else state
    weights = before.to(dtype).reshape(len(state), rows.shape[1], rows.shape[3], state.shape[-1])
    erase = torch.zeros_like(step)[..., None]
    reads, final = fast_weight_scan(queries, keys, rows, erase, step[..., None], weights, decay[:, :, None])
    state.copy_(final.view(state.shape))
    y = reads.reshape(x.shape)
    if D is not None:
        y = torch.addcmul(y, values, D.to(dtype))
    if z is not None:
        y = y * silu(z.to(dtype))
    return y.to(x.dtype)


def _check_step(
    state: Tensor,
    x: Tensor,
    dt: Tensor,
    A: Tensor,  # noqa: N803
    B: Tensor,  # noqa: N803
    C: Tensor,  # noqa: N803
    D: Tensor | None,  # noqa: N803
    z: Tensor | None,
    dt_bias: Tensor | None,
) -> None:
    sizes: Sizes = {}
    h, g, expanded = ("", "", "") if x.dim() == 2 else ("h ", "g ", ", one number per head expanded")
    check(sizes, "x", x, f"b {h}p", " or (b, p)" if h else "")
    check(sizes, "B", B, f"b {g}n")
    check(sizes, "C", C, f"b {g}n")
    check(sizes, "state", state, f"b {h}p n")
    check(sizes, "dt", dt, f"b {h}p", expanded)
    check(sizes, "A", A, f"{h}p n", expanded)
    for name, given in (("D", D), ("dt_bias", dt_bias)):
        if given is not None:
            check(sizes, name, given, f"{h}p", expanded)
    if z is not None:
        check(sizes, "z", z, f"b {h}p")
    if torch.is_grad_enabled() and state.requires_grad and state.is_leaf:
        raise ValueError(
            "state: expected one that may be overwritten, got a leaf that requires gradients; give state.clone()"
        )


def tied(dt: Tensor, A: Tensor, dt_bias: Tensor | None) -> bool:  # noqa: N803
    """Whether step sizes and A are one number per head, by their strides."""
    dimensions = [(dt, -1), (A, -1), (A, -2)] + ([] if dt_bias is None else [(dt_bias, -1)])
    return all(x.shape[dim] == 1 or x.stride(dim) == 0 for x, dim in dimensions)


def _one_per_head(shared: Tensor, heads: int) -> Tensor:
    """`b g n` → `b h 1 n`."""
    if shared.shape[1] == 1:
        return shared[:, None].expand(-1, heads, -1, -1)
    if shared.shape[1] == 0 or heads % shared.shape[1]:
        raise ValueError(f"B, C: expected a number of groups that divides {heads} heads, got {shared.shape[1]}")
    return shared.repeat_interleave(heads // shared.shape[1], dim=1, output_size=heads)[:, :, None]


def _step_sizes(step: Tensor, bias: Tensor | None, through_softplus: bool) -> Tensor:
    if bias is not None:
        step = step + bias.to(step.dtype)
    return softplus(step) if through_softplus else step
