"""What `accelerate` puts in place of short convolutions: steps before channels, as the layers compute them."""

from functools import wraps
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import pad, silu

from fastweights.hf.served import Function, beginnings, serves
from fastweights.kernels.short_convolution import short_convolution

ACTIVATIONS = (None, "silu", "swish")
"""Those that the convolution knows itself."""


def convolution(original: Function) -> Function:
    """For the convolution of a sequence, or of several in a packed row, which transformers refuses."""

    @wraps(original)
    def convolve(
        hidden_states: Tensor, weight: Tensor, bias: Tensor | None = None, activation: str | None = None, **others: Any
    ) -> Tensor:
        begins = beginnings(others, hidden_states, hidden_states.shape[-1])
        if begins is not None and serves(hidden_states):
            return packed(hidden_states, weight, bias, activation, begins)
        if begins is not None or not known(hidden_states, weight, activation):
            return original(hidden_states, weight, bias, activation=activation, **others)
        return short_convolution(hidden_states.mT, weight, bias, activated=activation is not None).mT

    return convolve


def convolution_step(original: Function) -> Function:
    """For a single step, which moves the inputs that its state holds in place."""

    @wraps(original)
    def convolve(
        hidden_states: Tensor,
        conv_state: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        activation: str | None = None,
        **others: Any,
    ) -> Tensor:
        one = hidden_states.shape[-1] == 1 and conv_state.shape[-1] == weight.shape[-1]
        if not (one and known(hidden_states, weight, activation) and conv_state.dtype == weight.dtype):
            return original(hidden_states, conv_state, weight, bias, activation=activation, **others)
        seen = torch.cat([conv_state[..., 1:], hidden_states], dim=-1)
        conv_state.copy_(seen)
        out = (seen * weight).sum(dim=-1, keepdim=True)
        if bias is not None:
            out = out + bias[:, None]
        return out if activation is None else silu(out)

    return convolve


def known(x: Tensor, weight: Tensor, activation: str | None) -> bool:
    """Whether a call is ours. PyTorch rounds sums in half precision once, not after every step that is added."""
    precise = x.dtype == weight.dtype and x.dtype in (torch.float32, torch.float64)
    return precise and serves(x) and activation in ACTIVATIONS and not torch.compiler.is_compiling()


def packed(x: Tensor, weight: Tensor, bias: Tensor | None, activation: str | None, begins: Tensor) -> Tensor:
    """y_t = Σ_j w_j x_{t-j} over those j for which step t-j belongs to the sequence of step t."""
    from transformers.activations import ACT2FN

    steps = x.shape[-1]
    if begins.shape[-1] != steps:
        raise ValueError(f"packed rows of {begins.shape[-1]} steps cannot continue a cache")
    sequence, inputs = begins.cumsum(dim=-1)[:, None], x.to(weight.dtype)
    out = inputs * weight[:, -1:]
    for lag in range(1, min(weight.shape[-1], steps)):
        same = sequence[..., lag:] == sequence[..., :-lag]
        out = out + pad(inputs[..., :-lag] * same, (lag, 0)) * weight[:, -1 - lag, None]
    if bias is not None:
        out = out + bias[:, None]
    if activation is not None:
        out = ACT2FN[activation](out)
    return out.to(x.dtype)
