"""The recurrence step by step, straight from the equations: the oracle. It shares no code with the fast backends."""

import torch

from fastweights.memory.backend import Call
from fastweights.shapes import Keys, PerKey, PerStep, Queries, Values, Weights


def unavailable() -> str | None:
    """Why this backend cannot run here at all; None if it can."""
    return None


def cannot_serve(call: Call) -> str | None:
    """Why this backend cannot serve the call; None if it can."""
    return None


def suits(call: Call) -> bool:
    """True: it is the last of the table."""
    return True


def scan(
    queries: Queries,
    keys: Keys,
    values: Values,
    erase: PerStep,
    write: PerStep,
    weights: Weights,
    decay: PerStep | PerKey | None = None,
    lookups: Keys | None = None,
) -> tuple[Values, Weights]:
    """W_t = W_{t-1} diag(g_t) (I - a_t e_t k_tᵀ) + b_t v_t k_tᵀ,   y_t = W_t q_t."""
    lookups = keys if lookups is None else lookups
    reads = [values[:, :, :0]]
    for t in range(keys.shape[2]):
        key = keys[:, :, t]
        if decay is not None:
            per_channel = decay if decay.dim() == 4 else decay[..., None]
            weights = per_channel[:, :, t, None, :] * weights
        retrieved = torch.einsum("bhvk,bhk->bhv", weights, lookups[:, :, t])
        change = write[:, :, t, None] * values[:, :, t] - erase[:, :, t, None] * retrieved
        weights = weights + torch.einsum("bhv,bhk->bhvk", change, key)
        reads.append(torch.einsum("bhvk,bhk->bhv", weights, queries[:, :, t])[:, :, None])
    # Without a step W would be the caller's own tensor.
    return torch.cat(reads, dim=2), weights if keys.shape[2] else weights.clone()
