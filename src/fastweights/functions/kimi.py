"""Kimi delta attention, whose decay is one number per channel of the keys, as flash-linear-attention calls it."""

from jaxtyping import Float
from torch import Tensor

from fastweights.functions.arguments import check
from fastweights.functions.delta import States, check_sequences, delta_rule
from fastweights.functions.gates import log_decay_of, strength_of
from fastweights.functions.time_first import CumulativeLengths


def chunk_kda(
    q: Float[Tensor, "b t g k"],
    k: Float[Tensor, "b t g k"],
    v: Float[Tensor, "b t h v"],
    g: Float[Tensor, "b t h k"],
    beta: Float[Tensor, "b t h"],
    scale: float | None = None,
    initial_state: States | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    *,
    use_gate_in_kernel: bool = False,
    A_log: Tensor | None = None,  # noqa: N803
    dt_bias: Tensor | None = None,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    safe_gate: bool = False,
    lower_bound: float | None = None,
    disable_recompute: bool = False,
    state_v_first: bool = False,
    cu_seqlens: CumulativeLengths | None = None,
    cu_seqlens_cpu: CumulativeLengths | None = None,
    chunk_size: int = 64,
) -> tuple[Float[Tensor, "b t h v"], States | None]:
    """S ← diag(eᵍ) S;  S ← S + k (β (v - Sᵀ k))ᵀ;  o = scale · Sᵀ q,  with scale = 1/√k unless it is given.

    With `use_gate_in_kernel` the decay is computed from `g` by `decay_gate`, with `use_beta_sigmoid_in_kernel` β is
    σ(beta), or 2 σ(beta) with `allow_neg_eigval`. `safe_gate`, `disable_recompute`, `cu_seqlens_cpu` and `chunk_size`
    choose kernels elsewhere and have no effect.
    """
    if safe_gate and use_gate_in_kernel and lower_bound is None:
        raise ValueError("lower_bound: safe_gate with use_gate_in_kernel needs it")
    return fused_recurrent_kda(
        q,
        k,
        v,
        g,
        beta,
        A_log,
        dt_bias,
        scale,
        initial_state,
        output_final_state,
        use_qk_l2norm_in_kernel,
        use_gate_in_kernel=use_gate_in_kernel,
        use_beta_sigmoid_in_kernel=use_beta_sigmoid_in_kernel,
        allow_neg_eigval=allow_neg_eigval,
        lower_bound=lower_bound,
        state_v_first=state_v_first,
        cu_seqlens=cu_seqlens,
    )


def fused_recurrent_kda(
    q: Float[Tensor, "b t g k"],
    k: Float[Tensor, "b t g k"],
    v: Float[Tensor, "b t h v"],
    g: Float[Tensor, "b t h k"],
    beta: Float[Tensor, "b t h"],
    A_log: Tensor | None = None,  # noqa: N803
    dt_bias: Tensor | None = None,
    scale: float | None = None,
    initial_state: States | None = None,
    output_final_state: bool = False,
    use_qk_l2norm_in_kernel: bool = False,
    *,
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    lower_bound: float | None = None,
    state_v_first: bool = False,
    cu_seqlens: CumulativeLengths | None = None,
) -> tuple[Float[Tensor, "b t h v"], States | None]:
    """As `chunk_kda`: the operator chooses by itself how it runs a single step or a long sequence."""
    sizes = check_sequences(q, k, v, initial_state, cu_seqlens, state_v_first)
    check(sizes, "g", g, "b t h k")
    check(sizes, "beta", beta, "b t h")
    return delta_rule(
        q,
        k,
        v,
        strength_of(beta, use_beta_sigmoid_in_kernel, allow_neg_eigval),
        log_decay_of(g, use_gate_in_kernel, A_log, dt_bias, lower_bound),
        scale,
        initial_state,
        output_final_state,
        use_qk_l2norm_in_kernel,
        cu_seqlens,
        state_v_first,
    )
