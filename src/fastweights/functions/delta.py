"""The delta rule and the gated one, as flash-linear-attention calls them.

Arguments have the order of that library as far as its versions agree on one; those behind it are given by name.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from fastweights.functions.arguments import Sizes, check, precision_of
from fastweights.functions.gates import log_decay_of, strength_of
from fastweights.functions.time_first import CumulativeLengths, for_value_heads, in_precision, scaled_to_length, scan

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
    *,
    use_gate_in_kernel: bool = False,
    A_log: Float[Tensor, " h"] | None = None,  # noqa: N803
    dt_bias: Float[Tensor, " h"] | None = None,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    state_v_first: bool = False,
    cu_seqlens: CumulativeLengths | None = None,
    cu_seqlens_cpu: CumulativeLengths | None = None,
    chunk_indices: Tensor | None = None,
    chunk_size: int = 64,
) -> tuple[Float[Tensor, "b t h v"], States | None]:
    """S ← eᵍ S;  S ← S + k (β (v - Sᵀ k))ᵀ;  o = scale · Sᵀ q,  with scale = 1/√k unless it is given.

    `g` is the logarithm of the decay, or with `use_gate_in_kernel` what -exp(A_log) · softplus(g + dt_bias) makes one
    of; β is `beta`, or with `use_beta_sigmoid_in_kernel` σ(beta), twice that with `allow_neg_eigval`. Value heads may
    be a multiple of the key heads. With `cu_seqlens`, one row holds several sequences, and there is a state for each
    of them. `cu_seqlens_cpu`, `chunk_indices` and `chunk_size` have no effect: the operator needs none.
    """
    sizes = check_sequences(q, k, v, initial_state, cu_seqlens, state_v_first)
    check(sizes, "g", g, "b t h")
    check(sizes, "beta", beta, "b t h")
    log_decay = log_decay_of(g, use_gate_in_kernel, A_log, dt_bias)
    strength = strength_of(beta, use_beta_sigmoid_in_kernel, allow_neg_eigval)
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
    *,
    use_gate_in_kernel: bool = False,
    A_log: Float[Tensor, " h"] | None = None,  # noqa: N803
    dt_bias: Float[Tensor, " h"] | None = None,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    state_v_first: bool = False,
    cu_seqlens: CumulativeLengths | None = None,
) -> tuple[Float[Tensor, "b t h v"], States | None]:
    """As `chunk_gated_delta_rule`; the decay may be one per head `g`, one per channel `gk`, both or neither."""
    if gv is not None:
        raise ValueError("gv: a decay per value channel is not served; possible: g and gk")
    if g is None and use_gate_in_kernel:
        raise ValueError("g: use_gate_in_kernel needs it")
    sizes = check_sequences(q, k, v, initial_state, cu_seqlens, state_v_first)
    for name, given, letters in (("g", g, "b t h"), ("gk", gk, "b t h k"), ("beta", beta, "b t h")):
        if given is not None:
            check(sizes, name, given, letters)
    if g is not None:
        g = log_decay_of(g, use_gate_in_kernel, A_log, dt_bias)
    log_decay = g if gk is None else gk if g is None else gk + g[..., None]
    beta = torch.ones_like(v[..., 0]) if beta is None else beta
    strength = strength_of(beta, use_beta_sigmoid_in_kernel, allow_neg_eigval)
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
    cu_seqlens_cpu: CumulativeLengths | None = None,
    *,
    chunk_size: int = 64,
    state_v_first: bool = False,
) -> tuple[Float[Tensor, "b t h v"], States | None]:
    """S ← S + k (β (v - Sᵀ k))ᵀ;  o = scale · Sᵀ q: the gated rule without a decay."""
    sizes = check_sequences(q, k, v, initial_state, cu_seqlens, state_v_first)
    check(sizes, "beta", beta, "b t h")
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


def check_sequences(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    initial_state: Tensor | None,
    cu_seqlens: CumulativeLengths | None,
    state_v_first: bool,
) -> Sizes:
    """The sizes that the rule's tensors agree on; a ValueError names the first one that does not fit."""
    sizes: Sizes = {}
    check(sizes, "k", k, "b t g k")
    check(sizes, "q", q, "b t g k")
    check(sizes, "v", v, "b t h v")
    if initial_state is not None:
        order, which = ("v k", "v × k with") if state_v_first else ("k v", "k × v without")
        row = "b" if cu_seqlens is None else "n"
        check(sizes, "initial_state", initial_state, f"{row} h {order}", f", {which} state_v_first")
    return sizes


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
    dtype = precision_of(q, k, v, beta, log_decay, initial_state)
    queries, keys, values, strengths = (in_precision(x, dtype) for x in (q, k, v, beta))
    heads = v.shape[2]
    keys = for_value_heads(scaled_to_length(keys, 1.0, normalise), heads)
    queries = for_value_heads(
        scaled_to_length(queries, k.shape[-1] ** -0.5 if scale is None else scale, normalise), heads
    )
    decay = None if log_decay is None else in_precision(log_decay, dtype).exp()
    weights = None
    if initial_state is not None:
        weights = initial_state.to(dtype) if state_v_first else initial_state.to(dtype).mT
    reads, final = scan(
        queries, keys, values, strengths, strengths, decay, weights, cu_seqlens, every_final=output_final_state
    )
    # A view: where the cache of a model keeps its strides, W stays as the operator wants it.
    state = (final if state_v_first else final.mT) if output_final_state else None
    return reads.to(q.dtype), state
