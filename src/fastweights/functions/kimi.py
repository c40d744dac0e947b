"""Kimi delta attention, whose decay is one number per channel of the keys, as flash-linear-attention calls it."""

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from fastweights.functions.delta import States, delta_rule
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
    use_gate_in_kernel: bool = False,
    use_beta_sigmoid_in_kernel: bool = False,
    allow_neg_eigval: bool = False,
    lower_bound: float | None = None,
    cu_seqlens: CumulativeLengths | None = None,
    *,
    A_log: Tensor | None = None,  # noqa: N803
    dt_bias: Tensor | None = None,
    state_v_first: bool = False,
) -> tuple[Float[Tensor, "b t h v"], States | None]:
    """S ← diag(eᵍ) S;  S ← S + k (β (v - Sᵀ k))ᵀ;  o = scale · Sᵀ q,  with scale = 1/√k unless it is given.

    With `use_gate_in_kernel` the decay is computed from `g` by `kimi_log_decay`, with `use_beta_sigmoid_in_kernel`
    β is σ(beta), or 2 σ(beta) with `allow_neg_eigval`.
    """
    if use_gate_in_kernel:
        if A_log is None:
            raise ValueError("A_log: use_gate_in_kernel needs it")
        g = kimi_log_decay(g, A_log, dt_bias, lower_bound)
    elif A_log is not None or dt_bias is not None or lower_bound is not None:
        raise ValueError("A_log, dt_bias, lower_bound: they have an effect with use_gate_in_kernel=True only")
    if use_beta_sigmoid_in_kernel:
        beta = beta.sigmoid() * (2.0 if allow_neg_eigval else 1.0)
    elif allow_neg_eigval:
        raise ValueError("allow_neg_eigval: it has an effect with use_beta_sigmoid_in_kernel=True only")
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


fused_recurrent_kda = chunk_kda
"""The same function: the operator chooses by itself how it runs a single step or a long sequence."""


def kimi_log_decay(
    g: Float[Tensor, "b t h k"],
    A_log: Tensor,  # noqa: N803
    dt_bias: Tensor | None = None,
    lower_bound: float | None = None,
) -> Float[Tensor, "b t h k"]:
    """-exp(A) · softplus(g + bias), or lower_bound · σ(exp(A) · (g + bias)), with one A per head."""
    heads, key_dim = g.shape[-2:]
    rate = A_log.to(torch.promote_types(g.dtype, torch.float32)).reshape(heads, 1).exp()
    logits = g.to(rate.dtype)
    if dt_bias is not None:
        logits = logits + dt_bias.reshape(heads, key_dim)
    if lower_bound is None:
        return -rate * softplus(logits)
    if lower_bound >= 0:
        raise ValueError(f"lower_bound: expected a negative logarithm of a decay, got {lower_bound}")
    return lower_bound * (rate * logits).sigmoid()
