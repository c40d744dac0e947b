"""The functions that `accelerate` puts into modelling files of transformers, each with the signature it replaces.

Every one hands over to the function it replaces for tensors off the CPU, under `torch.export`, and for calls that ask
for something it does not serve.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any

import torch
from torch import Tensor

from fastweights.functions import mamba_chunk_scan_combined, selective_state_update
from fastweights.functions.delta import delta_rule
from fastweights.functions.mamba2 import tied
from fastweights.hf.convolutions import convolution, convolution_step
from fastweights.hf.served import Function, beginnings, serves

WORTH_A_CALL = 1 << 14
"""Numbers of a state from which on a single step of Mamba-2 is faster in the operator than in PyTorch."""


def turned(state: Tensor) -> bool:
    """Whether a state k × v is a view of weights v × k: a single step that had to copy it would be slower than stock's.

    Beam search selects rows of a state and leaves k × v.
    """
    return state.stride(-2) == 1


def delta(original: Function) -> Function:
    """For the gated delta rule and Kimi's, in chunks or step by step: all have the same arguments."""

    @wraps(original)
    def rule(
        query: Tensor,
        key: Tensor,
        value: Tensor,
        g: Tensor,
        beta: Tensor,
        chunk_size: int = 64,
        initial_state: Tensor | None = None,
        output_final_state: bool = False,
        use_qk_l2norm_in_kernel: bool = False,
        **others: Any,
    ) -> tuple[Tensor, Tensor | None]:
        begins = beginnings(others, key, key.shape[1])
        theirs = initial_state is not None and (begins is not None or (key.shape[1] == 1 and not turned(initial_state)))
        if theirs or not serves(query):
            return original(
                query,
                key,
                value,
                g=g,
                beta=beta,
                initial_state=initial_state,
                output_final_state=output_final_state,
                use_qk_l2norm_in_kernel=use_qk_l2norm_in_kernel,
                **others,
            )
        if begins is not None:
            g = g.masked_fill(begins[(..., *[None] * (g.dim() - 2))], -torch.inf)
        return delta_rule(
            query, key, value, beta, g, None, initial_state, output_final_state, use_qk_l2norm_in_kernel, None
        )

    return rule


def mamba2_chunk_scan(original: Function) -> Function:
    """For Mamba-2's rule over a sequence."""

    @wraps(original)
    def rule(
        hidden_states: Tensor,
        dt: Tensor,
        A: Tensor,  # noqa: N803
        B: Tensor,  # noqa: N803
        C: Tensor,  # noqa: N803
        chunk_size: int,
        initial_states: Tensor | None = None,
        dt_limit: tuple[float, float] = (0.0, float("inf")),
        **others: Any,
    ) -> Tensor | tuple[Tensor, ...]:
        begins = beginnings(others, dt, dt.shape[1])
        if not serves(hidden_states) or (begins is not None and initial_states is not None):
            return original(
                hidden_states, dt, A, B, C, chunk_size, initial_states=initial_states, dt_limit=dt_limit, **others
            )
        known = {name: others[name] for name in _OPTIONS_OF_MAMBA2 if name in others}
        # float32 whatever the inputs: the norm behind it wants the reads unrounded.
        return mamba_chunk_scan_combined(
            hidden_states.to(torch.promote_types(hidden_states.dtype, torch.float32)),
            dt,
            A,
            B,
            C,
            initial_states=initial_states,
            seq_idx=None if begins is None else begins.cumsum(dim=1).expand(len(dt), -1),
            dt_limit=(dt_limit[0], dt_limit[1]),
            **known,
        )

    return rule


_OPTIONS_OF_MAMBA2 = ("D", "z", "dt_bias", "dt_softplus", "return_final_states")


def mamba2_step(original: Function) -> Function:
    """For a single step of Mamba-2, which changes the state in place."""

    @wraps(original)
    def rule(
        state: Tensor,
        hidden_states: Tensor,
        dt: Tensor,
        A: Tensor,  # noqa: N803
        B: Tensor,  # noqa: N803
        C: Tensor,  # noqa: N803
        D: Tensor | None = None,  # noqa: N803
        dt_bias: Tensor | None = None,
        dt_softplus: bool = False,
        z: Tensor | None = None,
        **others: Any,
    ) -> Tensor:
        named = {"D": D, "dt_bias": dt_bias, "dt_softplus": dt_softplus, "z": z}
        ours = state.numel() >= WORTH_A_CALL and serves(hidden_states) and serves(state) and tied(dt, A, dt_bias)
        if not ours:
            return original(state, hidden_states, dt, A, B, C, **named, **others)
        return selective_state_update(state, hidden_states, dt, A, B, C, **named)  # type: ignore[arg-type]

    return rule


def not_fused(original: Function) -> Function:
    """For Mamba-2's fused layer, which PyTorch does not have: no result means that the layer goes on by parts.

    The original says the same, but not for packed rows, which it refuses.
    """

    @wraps(original)
    def nothing(zxbcdt: Tensor, *others: Any, **more: Any) -> Any:
        return None if serves(zxbcdt) else original(zxbcdt, *others, **more)

    return nothing


REPLACEMENTS: dict[str, Callable[[Function], Function]] = {
    "torch_chunk_gated_delta_rule": delta,
    "torch_recurrent_gated_delta_rule": delta,
    "chunk_kimi_delta_attention": delta,
    "recurrent_kimi_delta_attention": delta,
    "mamba2_chunk_scan": mamba2_chunk_scan,
    "mamba2_selective_state_update": mamba2_step,
    "mamba2_split_conv1d_scan_combined": not_fused,
    "causal_conv1d_fn": convolution,
    "causal_conv1d_update": convolution_step,
}
"""What stands in for a function of that name in a modelling file."""

RULES = frozenset(REPLACEMENTS) - {"causal_conv1d_fn", "causal_conv1d_update", "mamba2_split_conv1d_scan_combined"}
"""Those of them that compute a rule: a file without one has nothing to gain."""
