"""The rule of Mamba-2, as mamba-ssm calls it: a sum rule whose decay and write strength come from one step size."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn.functional import pad, silu, softplus

from fastweights.functions.time_first import at_least_float32, for_value_heads, scan
from fastweights.memory import fast_weight_scan

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
    dt_softplus: bool = False,
    dt_limit: tuple[float, float] = NO_LIMIT,
    return_final_states: bool = False,
) -> Float[Tensor, "b t h p"] | tuple[Float[Tensor, "b t h p"], Float[Tensor, "b h p n"]]:
    """W ← exp(A Δ) W + Δ x Bᵀ;  y = W C + D x,  times silu(z) if there is a z.

    Δ is `dt` with its bias, after softplus if asked for, within `dt_limit`. Heads share B and C in groups. Where
    `seq_idx` changes, another sequence begins. `chunk_size` has no effect: the operator needs none.
    """
    step = _step_sizes(dt, dt_bias, dt_softplus)
    if not (dt_softplus and tuple(dt_limit) == NO_LIMIT):
        step = step.clamp(*dt_limit)
    values, heads = at_least_float32(x), x.shape[2]
    keys, queries = (for_value_heads(at_least_float32(shared), heads) for shared in (B, C))
    decay = (step * A.to(step.dtype)).exp()
    if seq_idx is not None:
        begins = pad(seq_idx[:, 1:] != seq_idx[:, :-1], (1, 0), value=False)
        decay = decay.masked_fill(begins[..., None], 0.0)
    weights = None if initial_states is None else initial_states.to(values.dtype)
    reads, final = scan(queries, keys, values, torch.zeros_like(step), step, decay, weights)
    if D is not None:
        reads = torch.addcmul(reads, values, (D if D.dim() == 2 else D[:, None]).to(values.dtype))
    if z is not None:
        reads = reads * silu(z.to(reads.dtype))
    reads = reads.to(x.dtype)
    return (reads, final) if return_final_states else reads


def selective_state_update(
    state: Float[Tensor, "b h p n"],
    x: Float[Tensor, "b h p"],
    dt: Float[Tensor, "b h p"],
    A: Float[Tensor, "h p n"],  # noqa: N803
    B: Float[Tensor, "b g n"],  # noqa: N803
    C: Float[Tensor, "b g n"],  # noqa: N803
    D: Float[Tensor, "h p"] | None = None,  # noqa: N803
    z: Float[Tensor, "b h p"] | None = None,
    dt_bias: Float[Tensor, "h p"] | None = None,
    dt_softplus: bool = False,
) -> Float[Tensor, "b h p"]:
    """One step of `mamba_chunk_scan_combined`, which writes the new state into `state`.

    The step size and A are those of Mamba-2: one number per head, expanded over p and n.
    """
    if not tied(dt, A, dt_bias):
        raise ValueError("dt, A, dt_bias: expected one number per head, expanded over the head (Mamba-2)")
    step = _step_sizes(dt[..., 0], None if dt_bias is None else dt_bias[..., 0], dt_softplus)
    values, heads = at_least_float32(x), x.shape[1]
    keys, queries = (_one_per_head(shared, heads) for shared in (B, C))
    decay = (step * A[:, 0, 0].to(step.dtype)).exp()
    reads, final = fast_weight_scan(
        queries,
        keys,
        values[:, :, None],
        torch.zeros_like(step)[..., None],
        step[..., None],
        state.to(values.dtype),
        decay[..., None],
    )
    state.copy_(final)
    y = reads[:, :, 0]
    if D is not None:
        y = torch.addcmul(y, values, D.to(values.dtype))
    if z is not None:
        y = y * silu(z.to(y.dtype))
    return y.to(x.dtype)


def tied(dt: Tensor, A: Tensor, dt_bias: Tensor | None) -> bool:  # noqa: N803
    """Whether step sizes and A are one number per head, by their strides."""
    dimensions = [(dt, -1), (A, -1), (A, -2)] + ([] if dt_bias is None else [(dt_bias, -1)])
    return all(x.shape[dim] == 1 or x.stride(dim) == 0 for x, dim in dimensions)


def _one_per_head(shared: Tensor, heads: int) -> Tensor:
    """`b g n` → `b h 1 n`."""
    shared = at_least_float32(shared)
    if shared.shape[1] == 1:
        return shared[:, None].expand(-1, heads, -1, -1)
    return shared.repeat_interleave(heads // shared.shape[1], dim=1, output_size=heads)[:, :, None]


def _step_sizes(dt: Tensor, bias: Tensor | None, through_softplus: bool) -> Tensor:
    step = at_least_float32(dt)
    if bias is not None:
        step = step + bias.to(step.dtype)
    return softplus(step) if through_softplus else step
