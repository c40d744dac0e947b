"""The delta rule and the gated one, as flash-linear-attention calls them."""

import torch
from jaxtyping import Float
from torch import Tensor

from fastweights.functions.time_first import (
    CumulativeLengths,
    at_least_float32,
    for_value_heads,
    scaled_to_length,
    scan,
)

States = Float[Tensor, "n h _rows _columns"]
"""The transposed weights S = Wᵀ, k × v, one for each sequence; W itself, v × k, where `state_v_first` is true."""


def chunk_gated_delta_rule(
    q: Float[Tensor, "b t g k"],
    k: Float[Tensor, "b t g k"],
    v: Float[Tensor, "b t h v"],
    g: Float[Tensor, "b t h"],
    beta: Float[Tensor, "b t h"],
    scale: float | None = None,
    initial_state: States | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    cu_seqlens: CumulativeLengths | None = None,
    *,
    state_v_first: bool = False,
) -> tuple[Float[Tensor, "b t h v"], States | None]:
    """S ← eᵍ S;  S ← S + k (β (v - Sᵀ k))ᵀ;  o = scale · Sᵀ q,  with scale = 1/√k unless it is given.

    `g` is the logarithm of the decay. Value heads may be a multiple of the key heads. With `cu_seqlens`, one row holds
    several sequences, and there is a state for each of them.
    """
    return delta_rule(
        q,
        k,
        v,
        beta,
        g,
        scale,
        initial_state,
        output_final_state,
        use_qk_l2norm_in_kernel,
        cu_seqlens,
        state_v_first,
    )


def fused_recurrent_gated_delta_rule(
    q: Float[Tensor, "b t g k"],
    k: Float[Tensor, "b t g k"],
    v: Float[Tensor, "b t h v"],
    g: Float[Tensor, "b t h"] | None = None,
    gk: Float[Tensor, "b t h k"] | None = None,
    gv: Float[Tensor, "b t h v"] | None = None,
    beta: Float[Tensor, "b t h"] | None = None,
    scale: float | None = None,
    initial_state: States | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    cu_seqlens: CumulativeLengths | None = None,
    *,
    state_v_first: bool = False,
) -> tuple[Float[Tensor, "b t h v"], States | None]:
    """As `chunk_gated_delta_rule`; the decay may be one per head `g`, one per channel `gk`, both or neither."""
    if gv is not None:
        raise ValueError("gv: a decay per value channel is not served; possible: g and gk")
    log_decay = g if gk is None else gk if g is None else gk + g[..., None]
    strength = torch.ones_like(v[..., 0]) if beta is None else beta
    return delta_rule(
        q,
        k,
        v,
        strength,
        log_decay,
        scale,
        initial_state,
        output_final_state,
        use_qk_l2norm_in_kernel,
        cu_seqlens,
        state_v_first,
    )


def chunk_delta_rule(
    q: Float[Tensor, "b t g k"],
    k: Float[Tensor, "b t g k"],
    v: Float[Tensor, "b t h v"],
    beta: Float[Tensor, "b t h"],
    scale: float | None = None,
    initial_state: States | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    cu_seqlens: CumulativeLengths | None = None,
    *,
    state_v_first: bool = False,
) -> tuple[Float[Tensor, "b t h v"], States | None]:
    """S ← S + k (β (v - Sᵀ k))ᵀ;  o = scale · Sᵀ q: the gated rule without a decay."""
    return delta_rule(
        q,
        k,
        v,
        beta,
        None,
        scale,
        initial_state,
        output_final_state,
        use_qk_l2norm_in_kernel,
        cu_seqlens,
        state_v_first,
    )


def delta_rule(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    beta: Tensor,
    log_decay: Tensor | None,
    scale: float | None,
    initial_state: Tensor | None,
    output_final_state: bool,
    normalise: bool,
    cu_seqlens: CumulativeLengths | None,
    state_v_first: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """The rule behind all of these names: `log_decay` is per head, per channel or absent."""
    queries, keys, values, strengths = (at_least_float32(x) for x in (q, k, v, beta))
    heads = v.shape[2]
    keys = for_value_heads(scaled_to_length(keys, 1.0, normalise), heads)
    queries = for_value_heads(
        scaled_to_length(queries, k.shape[-1] ** -0.5 if scale is None else scale, normalise), heads
    )
    decay = None if log_decay is None else at_least_float32(log_decay).exp()
    weights = None
    if initial_state is not None:
        weights = initial_state.to(keys.dtype) if state_v_first else initial_state.to(keys.dtype).mT
    reads, final = scan(
        queries, keys, values, strengths, strengths, decay, weights, cu_seqlens, every_final=output_final_state
    )
    # A view: where the cache of a model keeps its strides, W stays as the operator wants it.
    state = (final if state_v_first else final.mT) if output_final_state else None
    return reads.to(q.dtype), state
