"""The gates that the layers of flash-linear-attention may leave to their rule."""

import torch
from torch import Tensor
from torch.nn.functional import softplus

from fastweights.functions.arguments import precision_of


def log_decay_of(
    g: Tensor,
    use_gate_in_kernel: bool,
    A_log: Tensor | None,  # noqa: N803
    dt_bias: Tensor | None,
    lower_bound: float | None = None,
) -> Tensor:
    """The decay's logarithm: `g` itself, or `decay_gate` of it if the rule is to compute it."""
    if use_gate_in_kernel:
        return decay_gate(g, A_log, dt_bias, lower_bound)
    if A_log is not None or dt_bias is not None or lower_bound is not None:
        raise ValueError("A_log, dt_bias, lower_bound: they have an effect with use_gate_in_kernel=True only")
    return g


def decay_gate(
    g: Tensor,
    A_log: Tensor | None,  # noqa: N803
    dt_bias: Tensor | None = None,
    lower_bound: float | None = None,
) -> Tensor:
    """-exp(A) · softplus(g + bias), or lower_bound · σ(exp(A) · (g + bias)): one A per head, a bias for each of `g`.

    `g` is b t h or b t h k. With a lower bound A may be absent, which means exp(A) = 1.
    """
    if A_log is None and lower_bound is None:
        raise ValueError("A_log: use_gate_in_kernel needs it, or a lower_bound")
    if lower_bound is not None and lower_bound >= 0:
        raise ValueError(f"lower_bound: expected a negative logarithm of a decay, got {lower_bound}")
    rates = None if A_log is None else _fitted("A_log", A_log, g.shape[2:3])
    bias = None if dt_bias is None else _fitted("dt_bias", dt_bias, g.shape[2:])
    logits = g.to(precision_of(g, A_log, dt_bias))
    if bias is not None:
        logits = logits + bias
    if rates is not None:
        rate = rates.to(logits.dtype).exp()[(..., *[None] * (g.dim() - 3))]
    if lower_bound is None:
        return -rate * softplus(logits)
    return lower_bound * (logits if A_log is None else rate * logits).sigmoid()


def _fitted(name: str, x: Tensor, shape: torch.Size) -> Tensor:
    """The tensor in this shape, which it must have already, or be flat; axes of a single number do not count."""
    flat = (shape.numel(),)
    given, whole, line = ([n for n in one if n != 1] for one in (x.shape, shape, flat))
    if given not in (whole, line):
        possible = f"{tuple(shape)}" if tuple(shape) == flat else f"{tuple(shape)} or {flat}"
        raise ValueError(f"{name}: expected shape {possible}, got {tuple(x.shape)}")
    return x.reshape(shape)


def strength_of(beta: Tensor, use_beta_sigmoid_in_kernel: bool, allow_neg_eigval: bool) -> Tensor:
    """β itself, or σ(beta), or 2 σ(beta), with which a write may turn an association round."""
    if use_beta_sigmoid_in_kernel:
        strength = beta.to(torch.promote_types(beta.dtype, torch.float32)).sigmoid()
        return 2 * strength if allow_neg_eigval else strength
    if allow_neg_eigval:
        raise ValueError("allow_neg_eigval: it has an effect with use_beta_sigmoid_in_kernel=True only")
    return beta
